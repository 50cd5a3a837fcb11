"""Watermarks: schemes, logits processors, and which tokens a detector counts.

``schemes`` needs no torch; ``processors`` and ``marks`` do. Import submodules by name.
"""
