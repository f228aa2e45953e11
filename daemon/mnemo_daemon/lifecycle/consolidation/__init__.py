"""Consolidation: cycles over the store, as a background job and on request. SPEC 9"""
