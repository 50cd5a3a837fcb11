"""Beam search as in transformers, and the group and constrained searches it dropped."""
