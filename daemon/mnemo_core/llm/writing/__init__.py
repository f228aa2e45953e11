"""Language-model tasks that write: summaries, merged and shortened texts, names."""
