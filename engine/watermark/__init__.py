"""Watermarks: who is green, what counts, and how sure one may be. Submodules are imported by name.

``schemes`` and ``statistics`` need no torch; ``processors`` and ``scoring`` do.
"""
