"""What is asked of a recorded step: the logits it was decided from, and what follows from them."""
