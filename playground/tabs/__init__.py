"""The tabs of the page and what their buttons do."""
