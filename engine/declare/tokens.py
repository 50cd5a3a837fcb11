"""Parameters that name single tokens, by their ids or by their spelling; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.params import Param, TokenIds, parse_text, parse_token_id
from engine.messages import Message

_MAX_ID, _MAX_SPELLING = 10_000_000, 64


@dataclass(frozen=True, kw_only=True)
class Token(Param):
    """One token: an id or its spelling, which becomes an id once the tokenizer is known."""

    def describe_range(self) -> str:
        return Message(
            "a token id from 0 to {high} of the vocabulary, or the spelling of one token",
            high=_MAX_ID,
        )

    def parse(self, value: object) -> Any:
        if isinstance(value, str):
            return parse_text(value, _MAX_SPELLING)
        if (token_id := parse_token_id(value)) > _MAX_ID:
            raise ValueError
        return token_id


@dataclass(frozen=True, kw_only=True)
class Tokens(TokenIds):
    """A list of tokens, each an id or its spelling, which becomes an id once the tokenizer is known."""

    def describe_range(self) -> str:
        return Message(
            "a list of {low} to {high} token ids of the vocabulary, or spellings of one token each",
            low=self.minimum_items,
            high=self.maximum_items,
        )

    def parse(self, value: object) -> tuple[Any, ...]:
        return super().parse([value] if isinstance(value, str) else value)

    def parse_item(self, item: object) -> Any:
        return parse_text(item, _MAX_SPELLING) if isinstance(item, str) else parse_token_id(item)
