"""The JSONL journal: segments, its line format, and the dump format that exports use."""
