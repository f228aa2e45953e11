"""Servers on 127.0.0.1 that speak as other memories do, for clients that were made for those. SPEC 20"""
