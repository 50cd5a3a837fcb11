"""Statistics of traces and plain counts, and the glossary. No torch."""
