"""A run as a stream of messages to the page."""
