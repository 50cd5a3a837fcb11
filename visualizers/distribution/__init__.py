"""What one step saw: its pictures in the page and their tables."""
