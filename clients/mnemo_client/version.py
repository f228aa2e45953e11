"""The version of the distribution: a constant, since reading the package metadata is too slow for a command."""

VERSION = "0.1.0"
