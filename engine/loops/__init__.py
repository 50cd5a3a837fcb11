"""Decode loops: generators of Steps that transformers' generate() can drive."""
