"""Replication between devices: the order of changes, what is exchanged, and the merge. Pure. SPEC 21"""
