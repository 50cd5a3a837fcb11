"""View of what a server reported of a step, and what it did not."""
