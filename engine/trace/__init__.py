"""The record of a run: data types, events, JSON, its schema, and what a file must satisfy. No torch."""
