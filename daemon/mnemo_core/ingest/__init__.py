"""From a text to a write plan: classification, scoring, deduplication, policies and mutations."""
