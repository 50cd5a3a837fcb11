"""The views of masked diffusion: which pass wrote which word, and the text from left to right."""
