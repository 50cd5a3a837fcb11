"""Work in the background: begin, resume, stop and report progress."""
