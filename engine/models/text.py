"""Token ids to text: one display piece per id, and the running text of a growing output."""

from __future__ import annotations

from typing import Any

REPLACEMENT = "\ufffd"


def _byte_table() -> dict[str, int]:
    """Return the inverse of byte-level BPE's byte-to-character table (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    table.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return table


_BYTES = _byte_table()


class Pieces:
    """Display pieces of one tokenizer: id -> text, bytes that are no whole character as <0xE2>.

    Args:
        tokenizer: a transformers tokenizer, or None: then pieces are the ids themselves.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known: dict[int, str] = {}
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._byte_level = "ByteLevel" in repr(getattr(backend, "decoder", ""))
        self._special = set(getattr(tokenizer, "all_special_ids", ()))

    def __getitem__(self, token_id: int) -> str:
        if token_id not in self._known:
            self._known[token_id] = self._piece(token_id)
        return self._known[token_id]

    def of(self, ids: Any) -> dict[int, str]:
        """Return the pieces of several ids."""
        return {int(token_id): self[int(token_id)] for token_id in ids}

    def _piece(self, token_id: int) -> str:
        if self.tokenizer is None:
            return str(token_id)
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"<unused {token_id}>"
        if token_id in self._special:
            return token
        if self._byte_level and all(character in _BYTES for character in token):
            return _show_bytes(bytes(_BYTES[character] for character in token))
        if "▁" in token:
            return token.replace("▁", " ")
        if token.startswith("<0x") and token.endswith(">"):
            return token
        text = self.tokenizer.decode([token_id], clean_up_tokenization_spaces=False)
        return text if text and REPLACEMENT not in text else token


def _show_bytes(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)


def decode_ids(tokenizer: Any, ids: Any) -> str:
    """Return the text of ids without special tokens; ids joined by spaces when no tokenizer."""
    if tokenizer is None:
        return " ".join(str(token_id) for token_id in ids)
    return tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


class Detokenizer:
    """The running text of one output: whole characters only until the end, revisions allowed."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.text = ""

    def update(self, ids: list[int], *, final: bool = False) -> tuple[int, str] | None:
        """Return (characters kept, text appended), or None when nothing visible changed.

        Args:
            ids: the whole output so far.
            final: also show bytes that will not become a whole character any more.
        """
        text = decode_ids(self.tokenizer, ids)
        if not final:
            text = text.rstrip(REPLACEMENT)
        if text == self.text:
            return None
        keep = _common_prefix(self.text, text)
        self.text = text
        return keep, text[keep:]


def _common_prefix(a: str, b: str) -> int:
    if b.startswith(a):
        return len(a)
    return next(i for i in range(len(a) + 1) if i >= min(len(a), len(b)) or a[i] != b[i])
