"""Notes and documents: parsing of file formats, chunking, and comparison with what is stored."""
