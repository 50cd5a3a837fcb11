"""Custom generation methods: read without running them, run in a confined process, seen from outside."""
