"""The path from candidates to an answer: selection, abstention, excerpts and explanations."""
