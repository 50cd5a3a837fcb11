"""DoLa's layers over the steps: the picture in the page and its numbers."""
