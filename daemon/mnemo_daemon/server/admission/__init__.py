"""Fairness between clients: who is let in, whose request is next, and how much memory each may occupy. SPEC 16"""
