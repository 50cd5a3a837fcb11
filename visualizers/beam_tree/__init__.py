"""The beam tree view: drawing, table and summary."""
