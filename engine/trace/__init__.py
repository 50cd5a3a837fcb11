"""The record of a run: data types, events, JSON format, schema and validation, without torch."""
