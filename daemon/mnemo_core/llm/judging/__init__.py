"""Language-model tasks that judge memories: what enters core, what is kept, how two relate."""
