"""Contrastive search: its picture in the page and its table."""
