"""Rooms: a class bets on the cards of a lesson, and its teacher sees what was bet, reveals and goes on."""
