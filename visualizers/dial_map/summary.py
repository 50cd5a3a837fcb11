"""Data of the dial map: the cells of the picture, and the figures of each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from engine.statistics.metrics import perplexity_from_logprobs, repetition_metrics
from engine.trace.dial_map import DialInterval, DialMap
from engine.trace.dial_map_json import dial_map_to_dict

_GRID_TOKENS = 24
_TWO_DIALS = 6.0
"""Seconds of a map of two dials over those of one dial with as many tokens, about; texts, and so the
work, grow with the square of the tokens."""
Word = tuple[tuple[int, ...], str, int]
"""The token ids of a text up to the end of a word, the word, and the lowest rank of its tokens."""


def dial_map_with_view(found: DialMap) -> dict[str, Any]:
    """Return a map as JSON values, with the data of its picture as ``view``."""
    return dial_map_to_dict(found) | {"view": dial_map_view(found)}


def dial_map_view(found: DialMap) -> dict[str, Any]:
    """Return what the picture of a map shows, as JSON values.

    ``edges`` are the ends of the intervals, from low to high; between two stops, an edge is in the
    middle. ``cells`` are lists of row, first interval, last interval, word and rank, where equal
    beginnings of texts share a cell. ``figures`` are those of each interval's text, as in the
    metrics of a run. ``two_dials_s`` are the seconds that a map of two dials takes, about.
    """
    words = [list(_split_words(one, found)) for one in found.intervals]
    rows = max((len(own) for own in words), default=0)
    middles = ((a.high + b.low) / 2 for a, b in pairwise(found.intervals))
    return {
        "edges": [found.low, *middles, found.high],
        "rows": rows,
        "cells": [cell for row in range(rows) for cell in _merge_row(words, row)],
        "figures": [text_figures(one.token_ids, one.logprobs) for one in found.intervals],
        "two_dials_s": round(_TWO_DIALS * found.seconds * (_GRID_TOKENS / found.steps) ** 2, 1),
    }


def _split_words(interval: DialInterval, found: DialMap) -> Iterator[Word]:
    """Yield the words of a text; a token that begins with a space, and the end token, begin a word."""
    ids = interval.token_ids
    pieces = [found.pieces[i] for i in ids]
    if interval.end == "eos":
        pieces[-1] = ""
    starts = [i for i, piece in enumerate(pieces) if not i or not piece or piece[0].isspace()]
    for start, end in pairwise([*starts, len(ids)]):
        yield ids[:end], "".join(pieces[start:end]), max(interval.ranks[start:end])


def _merge_row(words: Sequence[Sequence[Word]], row: int) -> Iterator[list[Any]]:
    """Yield the cells of a row: neighbours whose texts are equal up to the end of its word."""
    cell: list[Any] = []
    before: Word | None = None
    for n, own in enumerate(words):
        word = own[row] if row < len(own) else None
        if word is not None and word == before:
            cell[2] = n
        else:
            if cell:
                yield cell
            cell = [] if word is None else [row, n, n, word[1], word[2]]
        before = word
    if cell:
        yield cell


def text_figures(token_ids: Sequence[int], logprobs: Sequence[float]) -> dict[str, float]:
    """Return the figures of a text with the log-probabilities of its tokens, in nats."""
    repeated = repetition_metrics(token_ids)
    return {
        "perplexity": round(perplexity_from_logprobs(logprobs), 6),
        "rep_3": round(repeated["rep_3"], 6),
        "distinct_2": round(repeated["distinct_2"], 6),
        "tokens": len(token_ids),
    }
