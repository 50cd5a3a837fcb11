"""The models on offer: where they come from, loading them, and their tokens as text."""
