"""The tokenizer of a model on a llama.cpp server: the server splits texts, and ids are joined here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.endpoints.server_lookup import ModelServer


class ServerTokenizer:
    """What this program uses of a transformers tokenizer.

    Args:
        server: it splits texts into tokens.
        raw: id -> the bytes of every token; empty for a special one, which has no place in a text.
    """

    chat_template = unk_token = None
    is_fast = False
    is_stateless = True
    """So that threads need not take turns; see ``tokenize_text``."""

    def __init__(self, server: ModelServer, raw: Mapping[int, bytes]) -> None:
        self._server, self._raw = server, raw
        self.all_special_ids = sorted(i for i, text in raw.items() if not text)
        known = server.name_ids(self.all_special_ids)
        self._names = {i: known[i].decode(errors="replace") for i in known if not raw.get(i, b"-")}
        self._ids: dict[str, int] = {}
        for token_id in sorted(raw):
            name = self._names.get(token_id) or _name_token(raw[token_id])
            # A byte and the character of this byte may be two tokens.
            if not name or name in self._ids:
                name = f"<token {token_id}>"
            self._names[token_id] = name
            self._ids[name] = token_id
        self.all_special_tokens = [self._names[i] for i in self.all_special_ids]

    def __call__(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        **_options: Any,
    ) -> dict[str, list[int]]:
        """Return the ids of a text as ``input_ids``."""
        if not text and not add_special_tokens:
            return {"input_ids": []}
        read = not split_special_tokens
        found = self._server.tokenize(text, special=read, begin=add_special_tokens)
        return {"input_ids": list(found.ids)}

    def __len__(self) -> int:
        return len(self._ids)

    def get_vocab(self) -> dict[str, int]:
        """Return name -> id of every token."""
        return dict(self._ids)

    def get_added_vocab(self) -> dict[str, int]:
        """Return name -> id of every special token."""
        return {self._names[i]: i for i in self.all_special_ids}

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False, **_options: Any
    ) -> str:
        """Return the text of ids; a part of a character becomes U+FFFD."""
        written = b""
        for token_id in token_ids:
            own = self._raw.get(token_id, b"")
            written += own if own or skip_special_tokens else self._names[token_id].encode()
        return written.decode(errors="replace")

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """Return the name of an id, or a list of them; None for an unknown one."""
        return self._names.get(ids) if isinstance(ids, int) else [self._names.get(i) for i in ids]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Return the text of named tokens."""
        return self.decode([self._ids[token] for token in tokens])

    _convert_id_to_token = convert_ids_to_tokens
    """transformers' StopStringCriteria calls it by this name."""


def _name_token(raw: bytes) -> str:
    """Return the text of a token, or ``<0xE2>`` for each byte of a part of a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)
