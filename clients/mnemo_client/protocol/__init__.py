"""The wire types of /v1, and messages about values that do not fit them."""
