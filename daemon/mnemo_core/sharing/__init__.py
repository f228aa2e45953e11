"""Several devices with one memory: what they exchange, and how the changes of another one are merged. SPEC 21"""
