"""Exports of other memory tools, and merging one store into another."""
