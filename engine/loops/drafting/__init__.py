"""Drafting and verification: the drafters, the loop that judges them, and what is measured after."""
