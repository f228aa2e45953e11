"""Keeps memories: LMDB, the journal, and the views rebuilt from them. Knows nothing of the other packages."""
