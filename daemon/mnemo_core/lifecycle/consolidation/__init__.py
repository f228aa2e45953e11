"""Consolidation: the steps of a cycle, as pure rules over the memories of the store. SPEC 9"""
