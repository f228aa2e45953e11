"""Rankers and the features that they score."""
