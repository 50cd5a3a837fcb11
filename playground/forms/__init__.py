"""What a visitor fills in: declarations, fields, links and media."""
