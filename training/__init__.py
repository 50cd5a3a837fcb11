"""How the embedded models were made: corpus, tokenizers, training, export, evaluation."""
