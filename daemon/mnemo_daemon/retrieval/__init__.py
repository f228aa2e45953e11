"""Recall: from a question to the memories that answer it, with explanations."""
