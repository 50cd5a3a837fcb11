"""The view of a comparison: drawings, tables and summary."""
