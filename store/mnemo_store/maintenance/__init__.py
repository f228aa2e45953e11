"""Check, repair, compaction, backup and restore of a whole store."""
