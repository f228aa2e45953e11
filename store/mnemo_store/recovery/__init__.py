"""Startup, locks, failover to the journal's state, and the way back after a disk failure."""
