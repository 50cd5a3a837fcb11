"""Views of one step: candidates, filters and draw, with tables and summaries."""
