"""The view of a custom method's forward passes: drawing, table and summary."""
