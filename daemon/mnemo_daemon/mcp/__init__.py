"""The Model Context Protocol: the daemon's tools, resources and prompts for agents, at POST /mcp. SPEC 13

`sdk_server` alone imports the official SDK, and is itself imported by the first request.
"""
