"""How a run reads special tokens that a prompt, a message or a word spells; no torch."""

from __future__ import annotations

TEXT, PARSE = SPECIAL_TOKENS = "text", "parse"
"""As plain text, or as the model's own tokens, as ``tokenizer(prompt)`` does."""
