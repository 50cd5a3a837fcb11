"""Searches with beams: transformers' own, and the older scorer's groups and constraints."""
