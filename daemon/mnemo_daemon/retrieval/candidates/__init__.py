"""Candidates of a question and the inputs of their ranking."""
