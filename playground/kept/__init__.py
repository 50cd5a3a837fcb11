"""What outlives a process: runs and rooms in one database, and which processes share it."""
