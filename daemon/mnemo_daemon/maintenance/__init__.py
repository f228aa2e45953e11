"""Check, repair, compaction and backup of a store in use or closed."""
