"""Commands about the daemon, its store, notes and models."""
