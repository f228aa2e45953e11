"""Memories that stand for others: near-duplicates, merges, reconciliation. SPEC 9.5"""
