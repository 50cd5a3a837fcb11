"""Runs of models that a server computes: its own greedy search and sampling, and our own sampling."""

from engine.live.run import check_values, decode_on_server, is_on_server

__all__ = ["check_values", "decode_on_server", "is_on_server"]
