"""Tune: a table of prompts, settings and seeds, its measures, and what they say of the settings."""
