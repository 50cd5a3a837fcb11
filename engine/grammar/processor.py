"""The logits processor that forbids every token which no text of a grammar goes on with.

Its state follows from the ids, so that it serves beams, reordered caches, drafts and padded rows alike: a
prefix grows out of the longest known one. Exported code contains this module.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import llguidance
import numpy as np
import torch

from engine.errors import DecodeError


def read_token_bytes(tokenizer: Any, vocab_size: int) -> list[bytes] | None:
    """Return what each id writes inside a text, b"" for special tokens and padding.

    Args:
        tokenizer: a transformers tokenizer.
        vocab_size: number of logits.

    Returns:
        The bytes, or None if the tokenizer does not say how it decodes.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.decoder is None:
        return None
    decoder = json.loads(backend.decoder.__getstate__())
    kinds = {part["type"] for part in [decoder, *decoder.get("decoders", [])]}
    prefix = decoder.get("prefix", "##") if "WordPiece" in kinds else None
    added = tokenizer.added_tokens_decoder
    silent = {*tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)}
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}  # GPT-2's table of bytes as characters
    byte_of |= {chr(256 + n): byte for n, byte in enumerate(hidden)}
    found = [b""] * vocab_size
    for piece, token_id in tokenizer.get_vocab().items():
        if token_id in silent or token_id >= vocab_size:
            continue
        if token_id in added:
            found[token_id] = added[token_id].content.encode()
        elif "ByteLevel" in kinds:
            whole = all(character in byte_of for character in piece)
            found[token_id] = bytes(byte_of[c] for c in piece) if whole else b""
        elif prefix is not None:
            inside = piece.startswith(prefix)
            found[token_id] = (piece[len(prefix) :] if inside else " " + piece).encode()
        elif "ByteFallback" in kinds and len(piece) == 6 and piece.startswith("<0x"):
            found[token_id] = bytes([int(piece[3:5], 16)])
        else:
            found[token_id] = piece.replace("\u2581", " ").encode()
    return found


class TokenTable:
    """A vocabulary as llguidance reads it.

    Args:
        token_bytes: what each id writes; an id with b"" is never allowed.
        eos: ids that end a text, at least one.
    """

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, token_bytes: Sequence[bytes], eos: Sequence[int]) -> None:
        # llguidance needs a different text for every id; no text contains the byte 0xFF.
        self.tokens = [text or b"\xff<[%d]>" % i for i, text in enumerate(token_bytes)]
        self.eos_token_id = eos[0]
        silent = {i for i, text in enumerate(token_bytes) if not text}
        self.special_token_ids = sorted(silent | set(eos))
        own: Any = self
        self.llguidance = llguidance.LLTokenizer(own, n_vocab=len(self.tokens), eos_token=list(eos))

    def __call__(self, text: str | bytes) -> list[int]:
        """Return no ids: llguidance asks only to force a text's own tokens, which is off."""
        return []


class GrammarLogitsProcessor:
    """Forbids every token that no text of the grammar goes on with.

    Args:
        table: the model's vocabulary.
        grammar: the grammar in llguidance's format.
        start: number of ids before the text (1 for encoder-decoder models).
        eos: ids that end a text, at least one.
        limits: keyword arguments of ``llguidance.LLParserLimits``.
    """

    kept_prefixes = 1024
    """Prefixes whose state is kept, of up to 20 kB each and a bit for every token."""

    def __init__(
        self,
        table: TokenTable,
        grammar: str,
        start: int,
        eos: Sequence[int],
        limits: dict[str, Any],
    ) -> None:
        self.table, self.grammar = table, grammar
        self.start, self.eos = start, list(eos)
        root = llguidance.LLMatcher(
            table.llguidance, grammar, log_level=0, limits=llguidance.LLParserLimits(**limits)
        )
        self._matchers: OrderedDict[tuple[int, ...], llguidance.LLMatcher | None] = OrderedDict(
            {(): root}
        )
        self._masks: dict[tuple[int, ...], bytes] = {}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores, -inf where the grammar forbids a token.

        Raises:
            DecodeError: the grammar allows only tokens that something else forbids, or is too complex.
        """
        prefixes = [tuple(row) for row in input_ids[:, self.start :].tolist()]
        allowed = np.stack([self.allowed(prefix, scores.shape[-1]) for prefix in prefixes])
        masked = scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), -torch.inf)
        # Not -inf alone: some processors of transformers write the smallest float instead.
        empty = ~(masked > torch.finfo(scores.dtype).min).any(-1)
        for row in empty.nonzero().flatten().tolist():
            self._check_possible(prefixes[row])
        return masked

    def allowed(self, prefix: tuple[int, ...], vocab_size: int) -> np.ndarray:
        """Return (vocab,) bools: which tokens may follow; a text that has left the grammar may only end.

        Raises:
            DecodeError: the grammar is too complex there, or no token continues it.
        """
        found = np.zeros(vocab_size, dtype=bool)
        matcher = self.matcher(prefix)
        if matcher is None:
            found[[i for i in self.eos if i < vocab_size]] = True
            return found
        if prefix not in self._masks:
            self._masks[prefix] = matcher.compute_bitmask()
            # The mask of a matcher in error says "end", as if the text were complete.
            if matcher.is_error():
                raise self._too_complex(prefix, matcher)
        bits = np.unpackbits(np.frombuffer(self._masks[prefix], np.uint8), bitorder="little")
        # llguidance pads its mask to whole words of 32 bits.
        found[: len(bits)] = bits[:vocab_size]
        return found

    def matcher(self, prefix: tuple[int, ...]) -> llguidance.LLMatcher | None:
        """Return llguidance's state after a text's ids; None if no text of the grammar begins so."""
        if prefix in self._matchers:
            if prefix:
                self._matchers.move_to_end(prefix)
            return self._matchers[prefix]
        known = next(n for n in range(len(prefix) - 1, -1, -1) if prefix[:n] in self._matchers)
        before, new = self._matchers[prefix[:known]], list(prefix[known:])
        found = None
        # An end inside is a padded row. What does not fit is never consumed: that would be an error state.
        if (
            before is not None
            and not set(new) & set(self.eos)
            and before.validate_tokens(new) == len(new)
        ):
            found = before.deep_copy()
            if not found.consume_tokens(new):
                raise self._too_complex(prefix, found)
        self._matchers[prefix] = found
        while len(self._matchers) > self.kept_prefixes:
            oldest = next(key for key in self._matchers if key)  # the empty prefix stays
            del self._matchers[oldest]
            self._masks.pop(oldest, None)
        return found

    def _too_complex(self, prefix: tuple[int, ...], matcher: llguidance.LLMatcher) -> DecodeError:
        error = matcher.get_error()
        if "NoExtension" in error:
            return DecodeError(
                "No token of this model continues a text of structured_outputs after {n} tokens.",
                n=len(prefix),
            )
        return DecodeError(
            "structured_outputs became too complex after {n} tokens: {why}.",
            n=len(prefix),
            why=(error.splitlines() or [""])[0][:200].rstrip("."),
        )

    def _check_possible(self, prefix: tuple[int, ...]) -> None:
        """Raise an error if something else forbids every token that the grammar allows."""
        matcher = self.matcher(prefix)
        if matcher is None:
            return
        if matcher.is_stopped() or matcher.is_accepting():
            raise DecodeError(
                "The text is complete under structured_outputs after {n} tokens, and another setting, such as "
                "min_new_tokens or a ban, forbids its end.",
                n=len(prefix),
            )
        raise DecodeError(
            "After {n} tokens another setting, such as a ban, forbids every token that structured_outputs allows.",
            n=len(prefix),
        )


def build_grammar_processor(
    tokenizer: Any,
    table: TokenTable,
    grammar: str,
    before: Sequence[int],
    start: int,
    eos: Sequence[int],
    limits: dict[str, Any],
) -> GrammarLogitsProcessor:
    """Return the processor of a grammar for one prompt.

    Args:
        tokenizer: a transformers tokenizer.
        table: its vocabulary.
        grammar: the grammar in llguidance's format.
        before: ids that a text is decoded after; none for encoder-decoder models.
        start: number of ids before the text (1 for encoder-decoder models).
        eos: ids that end a text, at least one.
        limits: keyword arguments of ``llguidance.LLParserLimits``.
    """

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    words = (i for i, text in enumerate(table.tokens) if text[:1] == b" " and text[1:].isalpha())
    word, known = next(words, None), decode(list(before))
    if word is not None and not decode([*before, word])[len(known) :].startswith(" "):
        # The decoder drops the space that a text begins with, so one more is allowed.
        outer = {"lark_grammar": grammar.split("\n", 1)[0] + '\nstart: " "? @inner'}
        grammar = json.dumps({"grammars": [outer, {"name": "inner", "lark_grammar": grammar}]})
    return GrammarLogitsProcessor(table, grammar, start, eos, limits)
