"""Answers of servers as traces: what a served model reported, and what it did not."""

from engine.endpoints.open_recording import open_recording
from engine.endpoints.to_trace import import_answer

__all__ = ["import_answer", "open_recording"]
