"""The hooks that agents run around prompts, replies and sessions: within a time limit, and without ever failing."""
