"""What a language model adds to ingestion and recall: statements and facts of texts, phrasings, judged results, answers."""
