"""The Model Context Protocol bridge and its tools."""
