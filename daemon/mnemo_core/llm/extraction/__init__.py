"""Language-model tasks that take statements and facts from a text."""
