"""Versions of a memory, and its permanent erasure."""
