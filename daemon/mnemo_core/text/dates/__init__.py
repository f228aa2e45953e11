"""Expressions of time in five languages, and the times they mean."""
