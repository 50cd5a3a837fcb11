"""Watermarks: who is green, what counts, and how sure one may be. Submodules are imported by name.

``schemes`` needs no torch; ``processors`` and ``marks`` do.
"""
