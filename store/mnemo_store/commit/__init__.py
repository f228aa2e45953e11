"""Writes and commit groups: what the writer thread does with what callers hand in."""
