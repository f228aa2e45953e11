"""Changes: whether a statement replaces, repeats or only resembles an earlier one. SPEC 5.8"""
