"""Runs of models that a server computes: its own greedy search and sampling, and our own sampling."""

from engine.live.run import decode_on_server, is_on_server

__all__ = ["decode_on_server", "is_on_server"]
