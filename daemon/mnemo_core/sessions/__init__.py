"""The tiers of a conversation. SPEC 8 [T]"""
