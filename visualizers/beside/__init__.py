"""The view of two models on one text: their difference at every token."""
