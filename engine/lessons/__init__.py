"""Lessons: chains of cards that ask before they show, and whose every answer is computed from recorded runs."""
