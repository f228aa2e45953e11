"""Asks: the protocol, a client, the command line and the MCP bridge. The standard library and msgspec only."""
