"""Numbers read off a record or off plain counts. No torch."""
