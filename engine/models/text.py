"""Token ids to text and back: one display piece per id, and texts that continue another text.

SentencePiece-style decoders drop a text's leading space, and their encoders add one. So a continuation is
never decoded or encoded alone. Its text is what prompt and continuation have beyond the prompt; its ids are
those after the prompt's tokens.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from engine.model_code import TOKENIZER, ModelCall
from engine.models.model_types import Tokenizer

REPLACEMENT = "\ufffd"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_TOKENIZER_LOCK = threading.Lock()
"""One thread tokenizes at a time: a tokenizer stores its handling of special tokens as state."""
_ANCHORS = ("\n", ".", ")", "0", "a", ">")
"""Contexts to tokenize a text after, if its own context is unknown or merges with its first token."""


def _byte_table() -> dict[str, int]:
    """Return the inverse of GPT-2's byte-to-character table for byte-level BPE."""
    # Printable bytes stand for themselves, and the others for the characters from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    table.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return table


_BYTES = _byte_table()


class Pieces:
    """Display pieces of one tokenizer: id -> text; incomplete bytes are shown as <0xE2>.

    Args:
        tokenizer: a transformers tokenizer, or None: then pieces are the ids themselves.

    Attributes:
        special: ids of special tokens, which are left out of texts; see ``special_ids``.
    """

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self.tokenizer = tokenizer
        self._known: dict[int, str] = {}
        self._byte_level = _is_byte_level(tokenizer)
        self.special = special_ids(tokenizer)

    def __getitem__(self, token_id: int) -> str:
        if token_id not in self._known:
            self._known[token_id] = self._piece(token_id)
        return self._known[token_id]

    def of(self, ids: Iterable[int]) -> dict[int, str]:
        """Return {id: piece} for several ids."""
        return {int(token_id): self[int(token_id)] for token_id in ids}

    @property
    def _vocabulary(self) -> dict[str, int]:
        assert self.tokenizer is not None  # without one, pieces are ids
        return self.tokenizer.get_vocab()

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        """Piece -> the ids with this piece, without special tokens."""
        found: dict[str, list[int]] = {}
        for token_id in sorted(self._vocabulary.values()):
            if token_id not in self.special:
                found.setdefault(self[token_id], []).append(token_id)
        return found

    @ModelCall(TOKENIZER)
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
        text = self._inside_decoder.text([token_id])
        return text if text and REPLACEMENT not in text else token

    def _byte_piece(self, token: str) -> str:
        """Return the character of a byte token, or the token's name if another token has this character."""
        shown = _show_bytes(bytes([int(token[3:5], 16)]))
        return token if shown in self._vocabulary else shown

    @cached_property
    def _inside_decoder(self) -> OutputDecoder:
        """Decodes a token as if inside a text: some decoders treat the first token differently."""
        for token_id in sorted(self._vocabulary.values()):
            if token_id not in self.special and _decode(self.tokenizer, [token_id]).isalnum():
                return OutputDecoder(self.tokenizer, [token_id])
        return OutputDecoder(self.tokenizer)


@ModelCall(TOKENIZER)
def special_ids(tokenizer: Tokenizer | None) -> frozenset[int]:
    """Return the ids of all special tokens of a tokenizer, with or without a role.

    ``all_special_ids`` lacks tokens that a file only declares special, such as Llama's chat headers.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {})
    declared = (int(token_id) for token_id, token in added.items() if token.special)
    return frozenset((*getattr(tokenizer, "all_special_ids", ()), *declared))


def _is_byte_level(tokenizer: Tokenizer | None) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return "ByteLevel" in repr(getattr(backend, "decoder", ""))


def _show_bytes(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)


@ModelCall(TOKENIZER)
def _decode(tokenizer: Tokenizer | None, ids: Sequence[int]) -> str:
    assert tokenizer is not None  # callers give a text of ids themselves
    return tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


def decode_ids(tokenizer: Tokenizer | None, ids: Iterable[int]) -> str:
    """Decode ids that do not continue another text; see ``OutputDecoder``."""
    return OutputDecoder(tokenizer).text(list(ids))


class OutputDecoder:
    """Decodes outputs that continue one prompt, so that ``prompt + text`` is the whole text.

    Special tokens are left out of the text.

    Args:
        tokenizer: a transformers tokenizer, or None: then a text is its ids, joined by spaces.
        before: ids that the outputs continue; empty if an encoder read the prompt.
        prompt: the typed text of these ids, None if they were not typed.
    """

    def __init__(
        self, tokenizer: Tokenizer | None, before: Sequence[int] = (), prompt: str | None = None
    ) -> None:
        self.tokenizer, self.before = tokenizer, list(before)
        self._byte_level = _is_byte_level(tokenizer)
        known = self._read(self.before) if tokenizer is not None else ""
        # Decoding may not give the prompt back as it was written, so both are tried.
        self._starts = [known] if prompt is None or not before else [prompt, known]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text that these ids add to the prompt."""
        if self.tokenizer is None:
            return " ".join(str(token_id) for token_id in ids)
        whole = self._read([*self.before, *ids])
        for start in self._starts:
            if whole.startswith(start):
                return whole[len(start) :]
        # The prompt ends inside a multi-byte character that the output completes.
        return whole[common_prefix_length(whole, self._starts[-1]) :]

    def added_text(self, known: Sequence[int], ids: Sequence[int]) -> str | None:
        """Return the text that ``ids`` add after the prefix ``known``, decoded without earlier ids.

        Args:
            known: the first ids, which begin and end at whole characters.
            ids: ``known`` and the ids that follow.

        Returns:
            The added text, or None if it cannot be found without decoding the whole output.
        """
        if self.tokenizer is None:
            return None
        start, whole = self._read(list(known)), self._read(list(ids))
        # Some decoders drop a leading space; a blank prefix could hide that the added text lost it.
        return whole[len(start) :] if start.strip() and whole.startswith(start) else None

    def _read(self, ids: list[int]) -> str:
        """Decode ids; an incomplete character at the end becomes one replacement character.

        Decoded together, incomplete bytes would turn the complete ones before them into replacements.
        """
        cut = 0 if self._byte_level else self._count_unfinished(ids)
        text = _decode(self.tokenizer, ids[: len(ids) - cut])
        return text + REPLACEMENT if cut else text

    def _count_unfinished(self, ids: list[int]) -> int:
        """Count the tokens at the end that are the first bytes of an incomplete character (byte fallback)."""
        tail: list[int] = []
        for token in self._last_tokens(ids):
            found = _BYTE.fullmatch(token or "")
            if found is None:
                break
            tail.insert(0, int(found[1], 16))
            length = next((n for low, n in _CHARACTER_LENGTHS if tail[0] >= low), 0)
            if length:
                return len(tail) if len(tail) < length else 0
        return 0

    def _last_tokens(self, ids: list[int]) -> Iterator[str | None]:
        """Yield the last tokens, newest first, as many as one character can have."""
        assert self.tokenizer is not None
        convert = self.tokenizer.convert_ids_to_tokens
        return (convert(token_id) for token_id in ids[:-_MAX_CHARACTER_BYTES:-1])


_CHARACTER_LENGTHS = ((0xF0, 4), (0xE0, 3), (0xC0, 2))
"""(smallest first byte, number of bytes) of multi-byte UTF-8 characters."""
_MAX_CHARACTER_BYTES = 4


_STRIDE = 16
"""Tokens between two positions from which a running text can be decoded on."""


class Detokenizer:
    """The growing text of one output, which may also be revised; shows whole characters only until the end.

    The cost of a step does not grow with the text: only the last tokens are decoded again, and the whole
    once at the end.

    Args:
        reader: decodes outputs of this prompt.
    """

    def __init__(self, reader: OutputDecoder) -> None:
        self.reader = reader
        self.text = ""
        self._marks: list[tuple[int, int]] = []
        """(number of ids, number of characters) at positions between whole characters."""

    def update(
        self, ids: list[int], *, kept: int = 0, final: bool = False
    ) -> tuple[int, str] | None:
        """Return (characters that stay, text to append), or None if the visible text did not change.

        Args:
            ids: the whole output so far.
            kept: number of leading ids that are the same as in the last update.
            final: whether the output is finished; then incomplete characters are shown too.
        """
        # Marks after what stays belong to text that was taken back.
        while self._marks and self._marks[-1][0] > kept:
            self._marks.pop()
        start, read = self._read(ids, final)
        # The bytes of an unfinished character are shown once its last one is there.
        text = read if final else read.rstrip(REPLACEMENT)
        shown = self.text[start:]
        self.text = self.text[:start] + text
        # Only between whole characters, because decoding begins at a mark.
        if text == read and len(ids) >= _STRIDE + (self._marks[-1][0] if self._marks else 0):
            self._marks.append((len(ids), len(self.text)))
        if text == shown:
            return None
        keep = common_prefix_length(shown, text)
        return start + keep, text[keep:]

    def _read(self, ids: list[int], final: bool) -> tuple[int, str]:
        """Return a position in the text and the text from there on."""
        if len(self._marks) > 1 and not final:
            # From the mark before the last one, so that the text at the last mark has context.
            (first, _), (last, characters) = self._marks[-2:]
            more = self.reader.added_text(ids[first:last], ids[first:])
            if more is not None:
                return characters, more
        return 0, self.reader.text(ids)


def common_prefix_length(a: Sequence[object], b: Sequence[object]) -> int:
    """Return how many items two sequences have in common at their start."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)


@ModelCall(TOKENIZER)
def tokenize_text(tokenizer: Tokenizer, text: str, **options: Any) -> Any:
    """Call a tokenizer on a text, one thread at a time; return its BatchEncoding.

    Args:
        tokenizer: a transformers tokenizer.
        text: the text.
        options: arguments of the tokenizer's call. With ``split_special_tokens``, text that spells a
            special token stays text.
    """
    # That of a model server has no such state, and others must not wait for the server.
    with nullcontext() if getattr(tokenizer, "is_stateless", False) else _TOKENIZER_LOCK:
        return tokenizer(text, **options)


def _tokenize_plain(tokenizer: Tokenizer, text: str, *, literal: bool = True) -> list[int]:
    """Return a text's ids without added special tokens; ``literal``: text that spells one stays text."""
    options = {"add_special_tokens": False, "split_special_tokens": literal}
    return tokenize_text(tokenizer, text, **options)["input_ids"]


def encode_after(tokenizer: Tokenizer, before: str, text: str) -> list[int]:
    """Return the ids of a text that follows another text whose ids must not change.

    Args:
        tokenizer: a transformers tokenizer.
        before: the text it follows.
        text: tokenized as after ``before``. If its first token would merge with the last token of
            ``before``, it is tokenized alone or after a neutral character.
    """
    return _encode_in_context(tokenizer, before, text, (before, "", *_ANCHORS))


def encode_inside(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text as part of another text."""
    return _encode_in_context(tokenizer, _ANCHORS[1], text, ("", *_ANCHORS))


def _encode_in_context(
    tokenizer: Tokenizer, before: str, text: str, contexts: Sequence[str]
) -> list[int]:
    """Return the first tokenization of a text that decodes back to it when it follows ``before``."""
    known = _tokenize_plain(tokenizer, before)
    whole_text, first = _decode(tokenizer, known) + text, None
    # Accepted only if the context keeps its tokens and the whole decodes back to the text: merges across
    # the border and added spaces are both common.
    for context in contexts:
        start = _tokenize_plain(tokenizer, context) if context else []
        whole = _tokenize_plain(tokenizer, context + text)
        if whole[: len(start)] != start:
            continue
        ids = whole[len(start) :]
        if ids and _decode(tokenizer, [*known, *ids]) == whole_text:
            return ids
        first = first or ids
    return first or []


def encode_pair(
    tokenizer: Tokenizer, before: str, text: str, *, literal: bool = True
) -> tuple[list[int], list[int]]:
    """Tokenize a text and its continuation together.

    Args:
        tokenizer: a transformers tokenizer.
        before: the first text.
        text: its continuation.
        literal: whether special tokens that they spell stay text.

    Returns:
        The ids of ``before``, with the special tokens that the tokenizer puts first, and the ids of
        ``text``. A token that spans both belongs to ``text``.
    """
    bare = _tokenize_plain(tokenizer, before, literal=literal)
    whole = _tokenize_plain(tokenizer, before + text, literal=literal)
    shared = common_prefix_length(bare, whole)
    full = tokenize_text(tokenizer, before, split_special_tokens=literal)["input_ids"]
    places = range(len(full) - len(bare) + 1)
    # Tokens that the tokenizer puts before every text, such as a begin token.
    lead = next((full[:i] for i in places if full[i : i + len(bare)] == bare), [])
    return [*lead, *whole[:shared]], whole[shared:]
