"""Defects that are planted one at a time, to see that the tests find each of them."""
