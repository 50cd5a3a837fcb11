"""Grammars that a text must match: their compilation, and the processor that forbids other tokens."""
