"""The command line `mnemo`."""
