"""Decides: pure functions, values in and values out. No clock, no chance, no disk, no loop."""
