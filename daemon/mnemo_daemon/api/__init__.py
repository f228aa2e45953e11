"""The routes of /v1, one module for each resource, and the codec between stored and wire types."""
