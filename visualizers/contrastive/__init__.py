"""The contrastive search view: drawing, table and summary."""
