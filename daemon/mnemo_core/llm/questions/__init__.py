"""Language-model tasks of a question: its phrasings, the order of what was found, the answer."""
