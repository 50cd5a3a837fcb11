"""The text of tokens that were drawn here, also where a character has several of them."""

from __future__ import annotations

from engine.endpoints.answer import ReportedToken
from engine.endpoints.server_lookup import ModelServer


class WrittenText:
    """Joins the texts of tokens, one token after the other.

    Args:
        server: joins tokens that have no text of their own.

    Attributes:
        text: the text so far, with U+FFFD for a character that is not complete.
    """

    def __init__(self, server: ModelServer) -> None:
        self.text = ""
        self._server, self._whole = server, b""
        self._parts, self._tail = list[int](), b""

    def add(self, token: ReportedToken) -> None:
        """Add a token.

        Raises:
            DecodeError: the server did not answer.
        """
        if token.raw is None:
            assert token.id is not None
            self._parts.append(token.id)
            self._tail = self._server.join_ids(self._parts).encode()
        else:
            self._whole += self._tail + token.raw
            self._parts, self._tail = [], b""
        self.text = (self._whole + self._tail).decode(errors="replace")
