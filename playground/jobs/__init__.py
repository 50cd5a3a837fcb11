"""The registry of work: begin, resume, stop, limit and report progress."""
