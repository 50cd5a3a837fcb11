"""The languages of the page and the translation of its texts."""
