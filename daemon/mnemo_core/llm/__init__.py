"""Tasks for a language model: each with its prompt, answer type, validation and deterministic fallback. SPEC 12"""
