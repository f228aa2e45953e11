"""Adapters: the memory where packages for agents expect one. SPEC 20"""
