"""The forward passes of a run that was seen from outside: their picture in the page and their table."""
