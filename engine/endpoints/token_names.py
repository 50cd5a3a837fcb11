"""Ids and pieces of the tokens of an answer: its own ids where it has them, else invented ones."""

from __future__ import annotations

from collections.abc import Mapping

from engine.endpoints.answer import ReportedToken
from engine.trace.served import FIRST_INVENTED_ID

UNKNOWN_TEXT = "\ufffd"
"""What stands for a part of a character, and for a token whose text is not known."""


class TokenNames:
    """Gives every token of an answer an id, and every id its piece.

    Args:
        names: token id -> bytes, as far as the answer gives both.
    """

    def __init__(self, names: Mapping[int, bytes]) -> None:
        self.pieces: dict[int, str] = {}
        self._names = names
        self._invented: dict[bytes, int] = {}

    def add(self, token: ReportedToken) -> int:
        """Return the id of a token: its own, or one for its text."""
        if token.id is None:
            return self._invent_for_text(token.raw or b"")
        self.add_id(token.id, token.raw)
        return token.id

    def add_id(self, token_id: int, raw: bytes | None = None) -> None:
        """Add the piece of an id; U+FFFD and the id if the answer never gives its text."""
        raw = self._names.get(token_id) if raw is None else raw
        if raw is not None:
            self.pieces[token_id] = _to_piece(raw)
        else:
            self.pieces.setdefault(token_id, f"{UNKNOWN_TEXT}{token_id}")

    def add_separate(self, raw: bytes) -> int:
        """Return a new id for a text that other tokens may have, too."""
        token_id = FIRST_INVENTED_ID + len(self.pieces)
        self.pieces[token_id] = _to_piece(raw)
        return token_id

    def _invent_for_text(self, raw: bytes) -> int:
        # Parts of characters that vLLM writes as empty texts are different tokens.
        if not raw:
            return self.add_separate(raw)
        if raw not in self._invented:
            self._invented[raw] = self.add_separate(raw)
        return self._invented[raw]


def _to_piece(raw: bytes) -> str:
    """Return bytes as text, or each as ``<0xE2>`` if they are only a part of a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)
