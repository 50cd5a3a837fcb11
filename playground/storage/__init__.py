"""Persistent storage of runs and classrooms in one database that several processes may share."""
