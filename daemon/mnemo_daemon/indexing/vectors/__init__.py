"""The vector index: the thread that fills it, its phases, token rows and centroids."""
