"""Embedding, reranking and language models: catalogue, installation and inference."""
