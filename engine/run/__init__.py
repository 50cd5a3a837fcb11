"""One run: the request, its preparation, generate() in a worker thread, and its events."""
