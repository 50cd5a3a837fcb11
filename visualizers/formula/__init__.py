"""The formula view: the formulas of a step, filled in with its numbers."""
