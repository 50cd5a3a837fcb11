"""Lessons: cards with a question before each answer; recorded runs give the answers."""
