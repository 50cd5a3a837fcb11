"""Inspection of recorded steps: explanations, what-if analysis, attention and influence."""
