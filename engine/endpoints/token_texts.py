"""Texts of token ids from vLLM, which lists candidates by their ids or by their texts, never by both."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from engine.endpoints.answer import ReportedStep, ReportedToken
from engine.endpoints.fields import read_ids, read_object, read_text
from engine.endpoints.http_client import EndpointClient, ServerError
from engine.endpoints.token_names import UNKNOWN_TEXT
from engine.errors import TraceError

_SEPARATOR = "§a"
"""Separates the tokens of one request. Its last character is a token in every vocabulary: next to §,
which may be two tokens of one byte, a part of a character would spoil both."""
_FREQUENT = 8192
"""Ids below it are named with the first request, as tokenizers give low ids to frequent tokens: for
SmolLM2, 71 to 116 of 200 steps then list a new id, and 159 to 180 without it."""


class TokenTexts:
    """Asks a server for the texts of ids, for each id once.

    Args:
        client: an open client.
        root: path of the server's interface.
        model: the model's name there.
    """

    def __init__(self, client: EndpointClient, root: str, model: str) -> None:
        self._client, self._root, self._model = client, root, model
        self._known: dict[int, bytes | None] = {}
        self._separator: list[int] = []
        self._before = ""

    @classmethod
    def find(
        cls, client: EndpointClient, root: str, model: str, vocab_size: int | None
    ) -> Self | None:
        """Return the texts of a server's tokens; None if it does not turn ids into texts.

        Args:
            client: an open client.
            root: path of the server's interface.
            model: the model's name there.
            vocab_size: None if the server does not say it.

        Raises:
            DecodeError: the server did not answer.
        """
        found = cls(client, root, model)
        try:
            if not found._find_separator():
                return None
            if vocab_size is not None:
                found._ask(range(min(_FREQUENT, vocab_size)))
        except (ServerError, TraceError):
            return None
        return found

    def name(self, ids: Iterable[int]) -> dict[int, bytes]:
        """Return the bytes of tokens, without those that are a part of a character.

        Raises:
            DecodeError: the server did not answer.
        """
        wanted = dict.fromkeys(ids)
        new = [token_id for token_id in wanted if token_id not in self._known]
        if new:
            try:
                self._ask(new)
            except (ServerError, TraceError):  # tokens without a text are shown by their ids
                self._known |= dict.fromkeys(new)
        return {i: raw for i in wanted if (raw := self._known.get(i)) is not None}

    def join(self, ids: Sequence[int]) -> str:
        """Return the text of successive tokens, U+FFFD for each part of a character that lacks others.

        Raises:
            DecodeError: the server did not answer.
        """
        # A text of its own could lose its first space.
        text = self._decode([*self._separator, *ids, *self._separator])
        _, _, text = text.partition(_SEPARATOR)
        return text.rpartition(_SEPARATOR)[0].removesuffix(self._before)

    def _find_separator(self) -> bool:
        """Find the ids of the separator; return False if they do not give its text again."""
        body = {
            "model": self._model,
            "prompt": _SEPARATOR,
            "add_special_tokens": False,
            "return_token_strs": False,
        }
        answer = read_object(self._client.post(f"{self._root}/tokenize", body), "tokens")
        self._separator = read_ids(answer.get("tokens"), "tokens")
        parts = self._decode(self._separator * 2).split(_SEPARATOR)
        if len(parts) != 3 or parts[2]:
            return False
        # Llama 2's tokenizer puts a space before a text, so also before the separator.
        self._before = parts[1]
        return True

    def _ask(self, ids: Sequence[int]) -> None:
        """Ask for the texts of several ids with one request."""
        tokens = [*self._separator]
        for token_id in ids:
            tokens += (token_id, *self._separator)
        texts = self._decode(tokens).split(_SEPARATOR)[1:-1]
        if len(texts) != len(ids):  # a token contains the separator
            texts = [UNKNOWN_TEXT] * len(ids)
        for token_id, text in zip(ids, texts, strict=True):
            raw = text.removesuffix(self._before).encode()
            self._known[token_id] = None if UNKNOWN_TEXT in text else raw

    def _decode(self, ids: Sequence[int]) -> str:
        body = {"model": self._model, "tokens": list(ids)}
        answer = read_object(self._client.post(f"{self._root}/detokenize", body), "prompt")
        return read_text(answer.get("prompt"), "prompt")


def unnamed_ids(steps: Iterable[ReportedStep]) -> list[int]:
    """Return the ids of the tokens that a server reported without their texts."""
    tokens = (token for step in steps for token in (step.chosen, *step.top))
    return [token.id for token in tokens if token.id is not None and token.raw is None]


def name_step(step: ReportedStep, names: Mapping[int, bytes]) -> ReportedStep:
    """Return a step with the texts of its tokens, as far as they are known."""

    def name(token: ReportedToken) -> ReportedToken:
        if token.id is None or token.raw is not None:
            return token
        return dataclasses.replace(token, raw=names.get(token.id))

    return ReportedStep(name(step.chosen), tuple(map(name, step.top)))
