"""`mnemo proxy`: passes requests to a model server, and remembers what is said. SPEC 19"""
