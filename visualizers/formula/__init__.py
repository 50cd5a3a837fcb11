"""The formulas that decided a step, with the step's numbers filled in."""
