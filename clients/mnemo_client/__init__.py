"""Asks: the protocol, a client, the command line and the MCP bridge. It needs msgspec and the standard library only."""
