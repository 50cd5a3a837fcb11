"""The watermark view: drawing, table and summary."""
