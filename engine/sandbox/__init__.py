"""Custom generation methods: read without executing them, run in a sandbox, observed by hooks."""
