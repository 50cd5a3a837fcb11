"""Which of the tokens that were drawn here end a text."""

from __future__ import annotations

from collections.abc import Sequence

from engine.endpoints.answer import ReportedToken
from engine.endpoints.dialects import Completion
from engine.endpoints.http_client import ServerError
from engine.endpoints.probe import complete
from engine.endpoints.server_lookup import ModelServer


class EndTokens:
    """The tokens that end a text: those that are given, or else those at which the server ends one.

    Args:
        server: the server of the run.
        ids: the ids that the request or the server names; empty if neither does.
    """

    def __init__(self, server: ModelServer, ids: Sequence[int]) -> None:
        self.server, self._ids = server, frozenset(ids)
        self._asked: dict[int, bool] = {}

    def has(self, token: ReportedToken) -> bool:
        """Return True if a token ends a text.

        Raises:
            DecodeError: the server did not answer.
        """
        if token.id is None or self._ids or self.server.dialect.server != "vllm":
            return token.id in self._ids
        if _is_word(token.raw):
            return False
        if token.id not in self._asked:
            self._asked[token.id] = self._ends_at(token.id)
        return self._asked[token.id]

    def _ends_at(self, token_id: int) -> bool:
        """Let vLLM write two tokens, of which it can choose only this one: at an end it stops after one."""
        asked = Completion(
            self.server.model, (token_id,), new_tokens=2, candidates=0, allowed_ids=(token_id,)
        )
        try:
            choice = complete(self.server, asked).choice(0)
        except ServerError:  # no token of the tokenizer has this id
            return False
        return choice.finish not in (None, "length")


def _is_word(raw: bytes | None) -> bool:
    """Return True for the text of a word, a number or a part of a character, which end no text.

    The tokens that do have names such as </s> and <|im_end|>, or none. So few requests are needed.
    """
    return raw is None or raw.decode(errors="replace").lstrip(" ")[:1].isalnum()
