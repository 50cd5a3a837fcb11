"""Models: where they come from, how they are loaded, and how their tokens become text."""
