"""Embedding models: their forms, their worker, and what is computed with them."""
