"""Decode loops: generators of Steps that run inside transformers' ``generate()``."""
