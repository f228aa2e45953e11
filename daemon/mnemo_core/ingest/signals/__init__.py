"""Signals of a text: entities, preferences, salience, noise."""
