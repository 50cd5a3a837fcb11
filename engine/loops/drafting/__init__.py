"""Drafting and verification: the drafters, the assisted loop, and the checks after it."""
