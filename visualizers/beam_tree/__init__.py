"""The beam tree: its picture in the page and its table."""
