"""The layer map: its picture in the page and its table."""
