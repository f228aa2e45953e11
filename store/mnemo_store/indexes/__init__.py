"""Search indexes rebuilt from the database: attributes, words, vectors, and their file format."""
