"""Special tokens that a text spells: found by name, and read as text or as the model's own tokens."""

from __future__ import annotations

from typing import Any

from engine.declare.special_tokens import PARSE
from engine.errors import ParameterError
from engine.messages import Message
from engine.models.model_types import Tokenizer
from engine.models.templates import token_pattern
from engine.models.text import Pieces, encode_after, encode_inside, special_ids, tokenize_text

_PLAIN = {"add_special_tokens": False}


def special_token_names(tokenizer: Tokenizer) -> dict[int, str]:
    """Return id -> spelling of every special token of a tokenizer."""
    ids = sorted(special_ids(tokenizer))
    return {i: str(name) for i in ids if (name := tokenizer.convert_ids_to_tokens(i))}


def find_special_tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the special tokens that ``tokenizer(text)`` reads in a text, in order."""
    names = special_token_names(tokenizer)
    if not any(name in text for name in names.values()):
        return []
    # An unknown character has the id of the unknown token, whose name the text does not contain.
    ids = tokenize_text(tokenizer, text, **_PLAIN)["input_ids"]
    return [names[i] for i in ids if i in names and names[i] in text]


def encode_prompt(
    tokenizer: Tokenizer, text: str, special_tokens: str, **options: Any
) -> list[int]:
    """Return the ids of a prompt.

    Args:
        tokenizer: a transformers tokenizer.
        text: the prompt.
        special_tokens: one of SPECIAL_TOKENS: how special tokens are read that the text spells.
        options: other arguments of the tokenizer's call.

    Raises:
        ParameterError: a special token is to be text, and the tokenizer cannot write it as text.
    """
    if special_tokens == PARSE:
        return list(tokenize_text(tokenizer, text, **options)["input_ids"])
    _check_writable_as_text(tokenizer, text, "prompt")
    return list(tokenize_text(tokenizer, text, split_special_tokens=True, **options)["input_ids"])


def _check_writable_as_text(tokenizer: Tokenizer, text: str, name: str) -> None:
    """Raise ParameterError for the field ``name`` if a special token stays one in spite of TEXT."""
    # A Unigram model finds its special tokens in its vocabulary, as any other piece.
    spelled = set(find_special_tokens(tokenizer, text)) - {tokenizer.unk_token}
    if not spelled:
        return
    ids = tokenize_text(tokenizer, text, split_special_tokens=True, **_PLAIN)["input_ids"]
    names = special_token_names(tokenizer)
    left = next((names[i] for i in ids if names.get(i) in spelled), None)
    if left is not None:
        raise ParameterError(
            name,
            left,
            "the model's tokenizer cannot write this control token as text",
            Message("special_tokens = {value} reads it as a token", value=PARSE),
        )


def encode_word(
    tokenizer: Tokenizer, text: str, before: str | None, special_tokens: str
) -> list[int]:
    """Return the ids of a word of a parameter, such as a forced word.

    A text that is exactly the spelling of an added token means this token, however special tokens
    inside longer texts are read.

    Args:
        tokenizer: a transformers tokenizer.
        text: the word.
        before: the text it follows, None if unknown.
        special_tokens: how special tokens are read that a longer text spells.
    """
    own = _ids_by_name(tokenizer).get(text)
    if own is not None:
        return [own]
    if special_tokens == PARSE:
        return _encode_parsed(tokenizer, text, before)
    return _encode_plain(tokenizer, text, before)


def encode_continuation(
    tokenizer: Tokenizer, text: str, before: str | None, special_tokens: str
) -> list[int]:
    """Return the ids of a text that continues another one, whose ids stay as they are.

    Args:
        tokenizer: a transformers tokenizer.
        text: the continuation.
        before: the text it follows, None if unknown.
        special_tokens: one of SPECIAL_TOKENS: how special tokens are read that the text spells.

    Raises:
        ParameterError: a special token is to be text, and the tokenizer cannot write it as text.
    """
    if special_tokens == PARSE:
        return _encode_parsed(tokenizer, text, before)
    _check_writable_as_text(tokenizer, text, "text")
    return _encode_plain(tokenizer, text, before)


def _ids_by_name(tokenizer: Tokenizer) -> dict[str, int]:
    return {name: i for i, name in special_token_names(tokenizer).items()}


def _encode_parsed(tokenizer: Tokenizer, text: str, before: str | None) -> list[int]:
    """Return the ids of a text with its special tokens as tokens, and the text between them."""
    names = _ids_by_name(tokenizer)
    ids, at = [], 0
    for found in token_pattern(set(names)).finditer(text):
        # Only the first part follows `before`; the others follow a special token.
        if found.start() > at:
            ids += _encode_plain(tokenizer, text[at : found.start()], before if not at else None)
        ids.append(names[found[0]])
        at = found.end()
    if at < len(text):
        ids += _encode_plain(tokenizer, text[at:], before if not at else None)
    return ids


def _encode_plain(tokenizer: Tokenizer, text: str, before: str | None) -> list[int]:
    if before is None:
        return encode_inside(tokenizer, text)
    return encode_after(tokenizer, before, text)


def find_token_ids(tokenizer: Tokenizer, pieces: Pieces, text: str) -> list[int]:
    """Return the ids of the tokens that a text spells exactly, special tokens first."""
    special = [i for i, name in special_token_names(tokenizer).items() if name == text]
    return special or list(pieces.by_text.get(text, ()))
