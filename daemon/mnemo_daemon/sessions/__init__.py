"""Sessions: the tiers of their turns, their end, and what a language model says about them. SPEC 8 [T]"""
