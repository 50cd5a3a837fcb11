"""The text of a run, token by token, and what it has cost."""
