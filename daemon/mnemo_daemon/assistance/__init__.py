"""Assistance by a language model in ingestion and recall: statements, facts, phrasings, judged results, answers."""
