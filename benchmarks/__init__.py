"""Ratios measured side by side in one run: a card for people, then one JSON line."""
