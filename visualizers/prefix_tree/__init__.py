"""Many draws: their tree in the page and its table."""
