"""Attributes that a text states of a subject, and the values that replace earlier ones."""
