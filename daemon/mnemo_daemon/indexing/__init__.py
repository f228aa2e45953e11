"""Indexes that follow the store: embedding, token rows, catch-up and rebuild."""
