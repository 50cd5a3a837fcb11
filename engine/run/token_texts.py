"""Texts in a request's parameters as token ids: bans, biases, forced and allowed words, end tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.declare.params import TokenSequence
from engine.errors import ParameterError
from engine.messages import Message
from engine.models.special_tokens import encode_word, find_token_ids
from engine.models.spellings import ban_message, find_spellings
from engine.number_text import quote_token
from engine.processors.dry import BREAKERS
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.strategies.shared_params import NextTokenParams

_ID_LISTS = ("suppress_tokens", "begin_suppress_tokens", "eos_token_id")
"""Parameters that are lists of single tokens."""
_SINGLE_IDS = ("forced_bos_token_id", "forced_eos_token_id")


def encode_texts(
    config: NextTokenParams, loaded: LoadedModel, special_tokens: str, preceding: Callable[[], str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters of a config whose texts become token ids, and a note per banned text.

    Args:
        config: a strategy's config.
        loaded: the LoadedModel.
        special_tokens: how special tokens inside longer texts are read.
        preceding: returns the text that an output continues.

    Raises:
        ParameterError: a text cannot be ids of this model.
    """
    reader = _TextReader(loaded, special_tokens)
    changes: dict[str, Any] = {}
    notes: list[str] = []
    if config.bad_words_ids:
        changes["bad_words_ids"], notes = reader.expand_banned_texts(config.bad_words_ids)
    for name in ("force_words_ids", "prefix_allowed_tokens_fn"):
        value = getattr(config, name, None)
        if value is not None and not callable(value):
            # Allowed words follow the prompt directly; forced ones may come anywhere in the text.
            start = preceding() if name == "prefix_allowed_tokens_fn" else None
            changes[name] = tuple(reader.to_ids(name, entry, start) for entry in value)
    if config.sequence_bias:
        changes["sequence_bias"] = tuple(
            (reader.to_ids("sequence_bias", ids), bias) for ids, bias in config.sequence_bias
        )
    if config.negative_prompt is not None:
        changes["negative_prompt_ids"] = tuple(
            reader.encode("negative_prompt", config.negative_prompt, "")
        )
    changes |= _encode_single_tokens(config, reader)
    ends = changes.get("eos_token_id") or loaded.eos_token_ids
    notes += _end_token_notes(changes.get("bad_words_ids", ()), ends, loaded)
    return changes, notes


def _encode_single_tokens(config: Any, reader: _TextReader) -> dict[str, Any]:
    """Return the parameters of single tokens as ids."""
    changes: dict[str, Any] = {}
    for name in _ID_LISTS:
        if getattr(config, name):
            changes[name] = reader.to_single_tokens(name, getattr(config, name))
    for name in _SINGLE_IDS:
        if isinstance(getattr(config, name), str):
            changes[name] = reader.to_single_tokens(name, (getattr(config, name),))[0]
    if config.dry_multiplier:
        changes["dry_sequence_breakers"] = reader.find_breakers(config.dry_sequence_breakers)
    return changes


def _end_token_notes(
    banned: Sequence[TokenSequence], ends: Sequence[int], loaded: LoadedModel
) -> list[str]:
    """Return a note for each ban of an end token: transformers drops it without a word."""
    template = (
        "bad_words_ids: {token} ends the text, and a ban of such a token has no effect in "
        "transformers; suppress_tokens bans it."
    )
    # NoBadWordsLogitsProcessor drops bans of a single end token.
    dropped = [token for token in ends if (token,) in banned]
    return [Message(template, token=quote_token(loaded.pieces[token])) for token in dropped]


class _TextReader:
    """Turns texts into ids of one model."""

    def __init__(self, loaded: LoadedModel, special_tokens: str) -> None:
        self.loaded, self.special_tokens = loaded, special_tokens

    def expand_banned_texts(
        self, entries: Sequence[TokenSequence]
    ) -> tuple[tuple[TokenSequence, ...], list[str]]:
        """Return the entries with every spelling of their texts, and a note per text."""
        ids, notes = [], []
        for entry in entries:
            if not isinstance(entry, str):
                ids.append(entry)
                continue
            if self.loaded.tokenizer is None:
                raise _no_tokenizer_error("bad_words_ids", entry)
            ways = find_spellings(entry, self.loaded.tokenizer, self.loaded.pieces)
            notes.append(ban_message(entry, ways, self.loaded.pieces))
            ids += ways
        most = SETTINGS.max_banned_sequences
        if len(set(ids)) > most:
            raise ParameterError(
                "bad_words_ids",
                list(entries),
                Message(
                    "its texts have {n} spellings, and at most {most} can be banned",
                    n=len(set(ids)),
                    most=most,
                ),
                "give fewer or shorter texts",
            )
        # Spellings of several texts may coincide; dict.fromkeys keeps their order.
        return tuple(dict.fromkeys(ids)), notes

    def to_ids(self, name: str, entry: Any, before: str | None = None) -> Any:
        """Return an entry with texts as ids; ``before`` is the preceding text, None if unknown."""
        if isinstance(entry, str):
            return tuple(self.encode(name, entry, before))
        if entry and isinstance(entry[0], (tuple, str)):
            return tuple(self.to_ids(name, item, before) for item in entry)
        return entry

    def encode(self, name: str, text: str, before: str | None) -> list[int]:
        """Return the ids of a text after another one; ``before`` is None if that is unknown."""
        if self.loaded.tokenizer is None:
            raise _no_tokenizer_error(name, text)
        return encode_word(self.loaded.tokenizer, text, before, self.special_tokens)

    def to_single_tokens(self, name: str, entries: Sequence[int | str]) -> tuple[int, ...]:
        """Return a list of tokens as ids; a text is the spelling of one token."""
        ids: list[int] = []
        for entry in entries:
            ids += [entry] if isinstance(entry, int) else self._find_token(name, entry)
        return tuple(dict.fromkeys(ids))

    def find_breakers(self, entries: Sequence[int | str] | None) -> tuple[int, ...]:
        """Return the tokens that end a repeat; None means those of ``BREAKERS`` that the model has."""
        if entries is not None:
            return self.to_single_tokens("dry_sequence_breakers", entries)
        tokenizer, pieces = self.loaded.tokenizer, self.loaded.pieces
        if tokenizer is None:
            return ()
        return tuple(i for text in BREAKERS for i in find_token_ids(tokenizer, pieces, text))

    def _find_token(self, name: str, text: str) -> list[int]:
        if self.loaded.tokenizer is None:
            raise _no_tokenizer_error(name, text)
        found = find_token_ids(self.loaded.tokenizer, self.loaded.pieces, text)
        if not found:
            raise ParameterError(name, text, "it must spell exactly one token of the model")
        return found


def _no_tokenizer_error(name: str, text: str) -> ParameterError:
    return ParameterError(name, text, "the model has no tokenizer, so it must be token ids")
