"""The version of the distribution, without asking the package metadata, which takes longer than a command may."""

VERSION = "0.1.0"
