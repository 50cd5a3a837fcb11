"""The sentence view: why a step chose its word, in one sentence."""
