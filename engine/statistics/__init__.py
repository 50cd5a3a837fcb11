"""Statistics of traces, and plain counts. No torch."""
