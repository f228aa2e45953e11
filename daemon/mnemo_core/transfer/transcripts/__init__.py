"""Parsers of the transcripts that agents and chat programs keep, one module a program."""
