"""Drafting round by round: its picture in the page and its table."""
