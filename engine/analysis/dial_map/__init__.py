"""Dial maps: every text that a sampled run can write as one of its settings moves."""
