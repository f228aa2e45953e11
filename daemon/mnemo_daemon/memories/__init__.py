"""Writes and history of single memories."""
