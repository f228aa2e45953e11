"""Trash, permanent erasure, and the scan that verifies it."""
