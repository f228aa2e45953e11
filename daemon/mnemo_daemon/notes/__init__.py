"""Watched notes folders: scanning, reading and writing to the store."""
