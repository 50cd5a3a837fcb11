"""Runs: request validation, preparation, scheduling, decoding in a worker thread, and events."""
