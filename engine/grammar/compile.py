"""Compiles ``structured_outputs`` to a grammar of llguidance, and says what is wrong with it.

Neither torch nor a model is imported: grammars are compiled in a process with limits, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import llguidance
import numpy as np

from engine.messages import Message

LIMITS: Mapping[str, Any] = {
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 50_000,
    "step_max_items": 20_000,
    "max_lexer_states": 20_000,
    "max_grammar_size": 50_000,
    "verbose_errors": False,
}
"""Arguments of ``LLParserLimits``: a fifth to a half of llguidance's own, as strangers share this process."""
_NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""Otherwise a mask leaves only the tokenizer's own first token of a forced text, not every one that fits."""
_COMPACT = {"whitespace_flexible": False}
"""Small models never leave optional white space."""
_END = 256
_PLACE = re.compile(r"(?:at )?(\d+)\(\d+\): ")
_CAUSE = re.compile(r"^(error: |(at )?\d+\(\d+\): )(failed to compile JSON schema: )?")


class GrammarError(ValueError):
    """A grammar cannot be used; the argument is a Message, a clause without its full stop."""


def compile_grammar(spec: Mapping[str, Any]) -> str:
    """Return the grammar of ``structured_outputs`` in llguidance's format.

    Args:
        spec: its normal form, see ``engine.declare.structured_outputs``.

    Raises:
        GrammarError: it cannot be compiled, or nothing but the empty text matches it.
    """
    try:
        grammar = _to_lark(spec)
    except (ValueError, TypeError, RecursionError) as error:
        raise GrammarError(
            Message("it cannot be read ({why})", why=_first_line(str(error)))
        ) from None
    matcher = make_byte_matcher(grammar)
    if matcher.is_error():
        raise GrammarError(_name_error(matcher, "grammar" in spec))
    allowed = next_bytes(matcher)
    if matcher.is_error() and "NoExtension" not in matcher.get_error():
        raise GrammarError(Message("it is too complex ({why})", why=error_text(matcher)))
    if not allowed.any():
        raise GrammarError(
            Message("only the empty text matches it")
            if matcher.is_accepting()
            else Message("no text matches it")
        )
    return grammar


def _to_lark(spec: Mapping[str, Any]) -> str:
    if "regex" in spec:
        # A slash ends a regular expression of Lark, so llguidance quotes it.
        quoted = json.loads(llguidance.LLMatcher.grammar_from_regex(spec["regex"]))
        body = quoted["grammars"][0]["lark_grammar"]
    elif "choice" in spec:
        body = "start: " + " | ".join(json.dumps(text) for text in spec["choice"])
    elif "grammar" in spec:
        body = spec["grammar"]
    else:
        pattern = spec.get("whitespace_pattern")
        spaces = _COMPACT if pattern is None else {"whitespace_pattern": pattern}
        # `true` is a schema, but only an object has room for x-guidance.
        schema = {"allOf": [spec["json"]]} if isinstance(spec["json"], bool) else spec["json"]
        body = "start: %json " + json.dumps({**schema, "x-guidance": spaces})
    return _NO_FORCING + body


def _name_error(matcher: llguidance.LLMatcher, own_lines: bool) -> Message:
    """Return the clause of a matcher's error, with its line if the lines are those that somebody wrote."""
    why, place = error_text(matcher), _PLACE.match(matcher.get_error())
    if place is None or not own_lines:
        return Message("it cannot be used ({why})", why=why)
    # The first line is ours: _NO_FORCING.
    return Message("it cannot be used (line {line}: {why})", line=int(place[1]) - 1, why=why)


def error_text(matcher: llguidance.LLMatcher) -> str:
    """Return what llguidance says is wrong; the rest of its message quotes the grammar."""
    lines = matcher.get_error().splitlines() or ["no reason given"]
    cause = next((line for line in lines if line.startswith("error: ")), lines[0])
    return _first_line(_CAUSE.sub("", cause))


def _first_line(text: str) -> str:
    return text.splitlines()[0].rstrip(".")[:200] if text else ""


def make_limits() -> Any:
    """Return the limits of a matcher."""
    return llguidance.LLParserLimits(**LIMITS)


def make_byte_matcher(grammar: str) -> Any:
    """Return a matcher over single bytes: it knows what may come next, whatever a model's tokens are."""
    return llguidance.LLMatcher(_byte_tokenizer(), grammar, log_level=0, limits=make_limits())


def next_bytes(matcher: llguidance.LLMatcher) -> np.ndarray:
    """Return (256,) which bytes may come next, of a matcher over single bytes."""
    bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
    return np.unpackbits(bits, bitorder="little")[:_END].astype(bool)


@lru_cache(maxsize=1)
def _byte_tokenizer() -> Any:
    vocabulary: Any = _Bytes()
    return llguidance.LLTokenizer(vocabulary, n_vocab=_END + 1, eos_token=[_END])


class _Bytes:
    """What llguidance asks of a tokenizer, for a vocabulary of single bytes."""

    is_tokenizer_wrapper = True
    bos_token_id = None
    eos_token_id = _END

    def __init__(self) -> None:
        self.tokens = [*(bytes([byte]) for byte in range(256)), b"\xff<end>"]
        self.special_token_ids = [_END]

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())
