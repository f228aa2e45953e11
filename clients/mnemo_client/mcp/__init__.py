"""The bridge from an agent to the daemon over the Model Context Protocol."""
