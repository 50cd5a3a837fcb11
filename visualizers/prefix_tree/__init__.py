"""The view of many draws as a tree: drawing, table and summary."""
