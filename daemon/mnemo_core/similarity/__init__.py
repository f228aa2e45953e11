"""Similarity thresholds for each embedding model, their calibration, and word overlap."""
