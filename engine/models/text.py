"""Token ids to text and back: one display piece per id, and texts that continue another.

A decoder of sentencepiece's kind drops the space that a text begins with, and its encoder puts one
there. So what continues a text is never read or cut alone: read, it is what both together have more
than the first; cut, it is what comes after the first one's tokens.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

REPLACEMENT = "\ufffd"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_CUTTING = threading.Lock()
"""A tokenizer keeps in itself how it treats special tokens, so one thread cuts at a time."""
_ANCHORS = ("\n", ".", ")", "0", "a", ">")
"""What a text may be cut after where its context is unknown or grows together with it."""


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

    Attributes:
        special: ids of the tokens that no text has; see ``special_ids``.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._known: dict[int, str] = {}
        self._byte_level = _is_byte_level(tokenizer)
        self.special = special_ids(tokenizer)

    def __getitem__(self, token_id: int) -> str:
        if token_id not in self._known:
            self._known[token_id] = self._piece(token_id)
        return self._known[token_id]

    def of(self, ids: Any) -> dict[int, str]:
        """Return the pieces of several ids."""
        return {int(token_id): self[int(token_id)] for token_id in ids}

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        """Piece -> the ids that are shown so, special tokens apart."""
        found: dict[str, list[int]] = {}
        for token_id in sorted(self.tokenizer.get_vocab().values()):
            if token_id not in self.special:
                found.setdefault(self[token_id], []).append(token_id)
        return found

    def _piece(self, token_id: int) -> str:
        if self.tokenizer is None:
            return str(token_id)
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"<unused {token_id}>"
        if token_id in self.special:
            return token
        if self._byte_level and all(character in _BYTES for character in token):
            return _show_bytes(bytes(_BYTES[character] for character in token))
        if "▁" in token:
            return token.replace("▁", " ")
        if _BYTE.fullmatch(token):
            return self._byte_piece(token)
        text = self._inside.text([token_id])
        return text if text and REPLACEMENT not in text else token

    def _byte_piece(self, token: str) -> str:
        """Return the character of a byte that is one and that no other token writes."""
        shown = _show_bytes(bytes([int(token[3:5], 16)]))
        return token if shown in self.tokenizer.get_vocab() else shown

    @cached_property
    def _inside(self) -> Reader:
        """Reads a token as it stands inside a text: some decoders treat the first one otherwise."""
        for token_id in sorted(self.tokenizer.get_vocab().values()):
            if token_id not in self.special and _decode(self.tokenizer, [token_id]).isalnum():
                return Reader(self.tokenizer, [token_id])
        return Reader(self.tokenizer)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids of the tokens that a tokenizer leaves out of a text, whether they have a role or not.

    ``all_special_ids`` alone lacks those that a file only declares, such as the headers of Llama's chats.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {})
    declared = (int(token_id) for token_id, token in added.items() if token.special)
    return frozenset((*getattr(tokenizer, "all_special_ids", ()), *declared))


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return "ByteLevel" in repr(getattr(backend, "decoder", ""))


def _show_bytes(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def decode_ids(tokenizer: Any, ids: Any) -> str:
    """Return the text of ids that continue nothing; see ``Reader``."""
    return Reader(tokenizer).text(list(ids))


class Reader:
    """Reads outputs that continue one prompt: ``prompt + text`` is what the model wrote.

    Special tokens have no text.

    Args:
        tokenizer: a transformers tokenizer, or None: then a text is its ids, joined by spaces.
        before: ids that the outputs continue; none where an encoder read the prompt.
        prompt: their text as it was typed, None when they were not typed.
    """

    def __init__(
        self, tokenizer: Any, before: Sequence[int] = (), prompt: str | None = None
    ) -> None:
        self.tokenizer, self.before = tokenizer, list(before)
        self._byte_level = _is_byte_level(tokenizer)
        known = self._read(self.before) if tokenizer is not None else ""
        self._starts = [known] if prompt is None or not before else [prompt, known]

    def text(self, ids: Sequence[int]) -> str:
        """Return what prompt and output have more than the prompt."""
        if self.tokenizer is None:
            return " ".join(str(token_id) for token_id in ids)
        whole = self._read([*self.before, *ids])
        for start in self._starts:
            if whole.startswith(start):
                return whole[len(start) :]
        # The prompt ends within a character that the output completes.
        return whole[_common_prefix(whole, self._starts[-1]) :]

    def more(self, known: Sequence[int], ids: Sequence[int]) -> str | None:
        """Return what ids have more than those that they begin with, without what they all continue.

        Args:
            known: from one whole character to another.
            ids: ``known`` and what follows it.

        Returns:
            None where a part of a text does not tell what the whole would say.
        """
        if self.tokenizer is None:
            return None
        start, whole = self._read(list(known)), self._read(list(ids))
        # Some decoders drop the space that a text begins with: that must not be the one asked for.
        return whole[len(start) :] if start.strip() and whole.startswith(start) else None

    def _read(self, ids: list[int]) -> str:
        """Decode; bytes at the end that are no character yet are one sign and spoil no other."""
        cut = 0 if self._byte_level else self._unfinished(ids)
        text = _decode(self.tokenizer, ids[: len(ids) - cut])
        return text + REPLACEMENT if cut else text

    def _unfinished(self, ids: list[int]) -> int:
        """Return how many tokens at the end are the first bytes of a character (byte fallback)."""
        tail: list[int] = []
        for token in self._tokens_backwards(ids):
            found = _BYTE.fullmatch(token or "")
            if found is None:
                break
            tail.insert(0, int(found[1], 16))
            length = next((n for low, n in _LENGTHS if tail[0] >= low), 0)
            if length:
                return len(tail) if len(tail) < length else 0
        return 0

    def _tokens_backwards(self, ids: list[int]) -> Iterator[str | None]:
        """Yield the last tokens, as many as may belong to one character."""
        return (self.tokenizer.convert_ids_to_tokens(token_id) for token_id in ids[:-_WIDEST:-1])


_LENGTHS = ((0xF0, 4), (0xE0, 3), (0xC0, 2))
"""First byte of a character of several, and how many they are (UTF-8)."""
_WIDEST = 4


_STRIDE = 16
"""So many tokens lie between the places from which a running text is read on."""


class Detokenizer:
    """The running text of one output: whole characters only until the end, revisions allowed.

    What one step more costs does not grow with the text: only the last tokens are read again, and the
    whole once at the end.

    Args:
        reader: knows what the output continues.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.text = ""
        self._marks: list[tuple[int, int]] = []
        """Number of ids and of the characters that they are, where no character is cut."""

    def update(
        self, ids: list[int], *, kept: int = 0, final: bool = False
    ) -> tuple[int, str] | None:
        """Return (characters kept, text appended), or None when nothing visible changed.

        Args:
            ids: the whole output so far.
            kept: how many of the first ids are those of the last update.
            final: also show bytes that will not become a whole character any more.
        """
        while self._marks and self._marks[-1][0] > kept:
            self._marks.pop()
        start, read = self._read(ids, final)
        text = read if final else read.rstrip(REPLACEMENT)
        shown = self.text[start:]
        self.text = self.text[:start] + text
        if text == read and len(ids) >= _STRIDE + (self._marks[-1][0] if self._marks else 0):
            self._marks.append((len(ids), len(self.text)))
        if text == shown:
            return None
        keep = _common_prefix(shown, text)
        return start + keep, text[keep:]

    def _read(self, ids: list[int], final: bool) -> tuple[int, str]:
        """Return a place in the text and what is read from there on."""
        if len(self._marks) > 1 and not final:
            (first, _), (last, characters) = self._marks[-2:]
            more = self.reader.more(ids[first:last], ids[first:])
            if more is not None:
                return characters, more
        return 0, self.reader.text(ids)


def _common_prefix(a: Sequence[Any], b: Sequence[Any]) -> int:
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)


def tokenized(tokenizer: Any, text: str, **options: Any) -> Any:
    """Return what a tokenizer makes of a text.

    Args:
        tokenizer: a transformers tokenizer.
        text: what is cut.
        options: of the tokenizer's call; ``split_special_tokens`` says whether a text that spells a
            special token stays text.
    """
    with _CUTTING:
        return tokenizer(text, **options)


def _cut(tokenizer: Any, text: str) -> list[int]:
    """Return a text's ids, nothing added; text that spells a special token stays text."""
    options = {"add_special_tokens": False, "split_special_tokens": True}
    return tokenized(tokenizer, text, **options)["input_ids"]


def encode_after(tokenizer: Any, before: str, text: str) -> list[int]:
    """Return the ids of a text that follows another whose ids stay.

    Args:
        tokenizer: a transformers tokenizer.
        before: the text it follows.
        text: cut as it would be there; alone, or after another sign, where its first token would
            grow together with the last one before.
    """
    return _fitting(tokenizer, before, text, (before, "", *_ANCHORS))


def encode_inside(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text that stands somewhere inside another."""
    return _fitting(tokenizer, _ANCHORS[1], text, ("", *_ANCHORS))


def _fitting(tokenizer: Any, before: str, text: str, contexts: Sequence[str]) -> list[int]:
    """Return the first cut of a text that reads as it is written when it stands after another."""
    known = _cut(tokenizer, before)
    wanted, first = _decode(tokenizer, known) + text, None
    for context in contexts:
        start = _cut(tokenizer, context) if context else []
        whole = _cut(tokenizer, context + text)
        if whole[: len(start)] != start:
            continue
        ids = whole[len(start) :]
        if ids and _decode(tokenizer, [*known, *ids]) == wanted:
            return ids
        first = first or ids
    return first or []


def encode_both(tokenizer: Any, before: str, text: str) -> tuple[list[int], list[int]]:
    """Cut a text and what follows it in one piece.

    Returns:
        The ids of the first, with what the tokenizer puts in front of a text, and those of the
        second; a token that holds the end of one and the start of the other is of the second.
    """
    bare, whole = _cut(tokenizer, before), _cut(tokenizer, before + text)
    shared = _common_prefix(bare, whole)
    full = tokenized(tokenizer, before, split_special_tokens=True)["input_ids"]
    places = range(len(full) - len(bare) + 1)
    lead = next((full[:i] for i in places if full[i : i + len(bare)] == bare), [])
    return [*lead, *whole[:shared]], whole[shared:]
