"""Classrooms: a class bets on the cards of a lesson.

The teacher sees the bets, reveals and moves on.
"""
