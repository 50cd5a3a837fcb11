"""The text view: the tokens of a run and its cost."""
