"""Two models on one text: how far the second is from the first at every token."""
