"""The comparison: its pictures in the page and its tables."""
