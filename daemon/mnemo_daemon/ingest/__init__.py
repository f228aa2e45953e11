"""The ingestion pipeline shared by all entry points."""
