"""Which tokens of a text a detector counts, for the live run, the detector and the table.

A token counts if its whole n-gram lies in the judged text. The counts equal those of transformers'
``WatermarkDetector`` and SynthID's masks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from engine.statistics.watermark_statistics import Verdict, running_z_scores, watermark_verdict
from engine.watermark.schemes import GreenList

NO_CONTEXT = "no context yet"
CONTEXT_IN_PROMPT = "context reaches into the prompt"
REPEATED_NGRAM = "repeated n-gram"
REPEATED_CONTEXT = "repeated context"
START_TOKEN = "start token"
END_OF_TEXT = "end of text"


@dataclass(frozen=True, slots=True)
class TokenMark:
    """One token as the detector sees it."""

    is_green: bool | None
    """None for SynthID, and for tokens without a full context."""
    g_values: tuple[int, ...]
    scored: bool
    reason: str
    """Why it does not count; empty when it does."""
    fresh: bool
    """It counts, and no earlier counted token has the same draw."""

    @property
    def hits(self) -> int:
        """Its hits if it is scored: 1 for green, or its number of g-values of 1."""
        return sum(self.g_values) if self.g_values else int(bool(self.is_green))


class Tally:
    """Decides token by token whether it counts, from the judged text alone.

    Args:
        processor: made by ``make_processor`` for the watermark to detect.
        ignore_repeated_ngrams: count every distinct n-gram once (green lists; SynthID always skips
            repeated contexts).
        bos_token_id: a leading one is skipped, as in transformers' detector.
        eos_token_ids: the text ends before the first of them.
    """

    def __init__(
        self,
        processor: Any,
        ignore_repeated_ngrams: bool = False,
        bos_token_id: int | None = None,
        eos_token_ids: tuple[int, ...] = (),
    ) -> None:
        self.processor, self.scheme = processor, processor.scheme
        self.ignore = ignore_repeated_ngrams
        self.bos, self.eos = bos_token_id, frozenset(eos_token_ids)
        self.ids: list[int] = []
        self.seen: set[tuple[int, ...]] = set()
        self.drawn: set[tuple[int, ...]] = set()
        # SynthID's processor forgets contexts, too, and marks a forgotten one again.
        self.recent: deque[tuple[int, ...]] = deque(
            maxlen=getattr(self.scheme, "context_history_size", 0)
        )
        self.ended = self.started = False

    def add(self, token_id: int) -> tuple[str, bool]:
        """Add a token; return why it does not count (or "") and whether its draw is fresh."""
        reason = self._exclusion_reason(token_id)
        if reason:
            return reason, False
        draw = self.processor.draw_key(self.ids[-self.scheme.window :])
        fresh = draw not in self.drawn
        self.drawn.add(draw)
        return "", fresh

    def _exclusion_reason(self, token_id: int) -> str:
        first, self.started = not self.started, True
        green = isinstance(self.scheme, GreenList)
        self.ended = self.ended or token_id in self.eos
        if self.ended:
            return END_OF_TEXT
        if first and green and token_id == self.bos:
            return START_TOKEN
        self.ids.append(token_id)
        if len(self.ids) < self.scheme.window:
            return NO_CONTEXT
        window = tuple(self.ids[-self.scheme.window :])
        if green:
            known = self.ignore and window in self.seen
            self.seen.add(window)
            return REPEATED_NGRAM if known else ""
        known = window[:-1] in self.recent
        self.recent.append(window[:-1])
        return REPEATED_CONTEXT if known else ""


def mark_tokens(ids: list[int], tally: Tally) -> tuple[TokenMark, ...]:
    """Return the mark of every token of a text.

    Args:
        ids: the text without its prompt.
        tally: a new one, its processor on the device that marked the text.
    """
    processor = tally.processor
    counted = [tally.add(token_id) for token_id in ids]
    reasons = [reason for reason, _ in counted]
    size = tally.scheme.window
    # tally.ids contains neither a start token nor anything after the end.
    kept = [i for i, reason in enumerate(reasons) if reason not in (START_TOKEN, END_OF_TEXT)]
    # The first size - 1 tokens end no whole n-gram.
    windows = [tally.ids[e - size + 1 : e + 1] for e in range(size - 1, len(tally.ids))]
    places = kept[size - 1 :]
    greens: dict[int, bool] = {}
    g_values: dict[int, tuple[int, ...]] = {}
    if isinstance(tally.scheme, GreenList):
        greens = dict(zip(places, processor.find_green_windows(windows), strict=True))
    elif windows:
        grams = torch.tensor([windows], device=processor.device)
        values = processor.sample_g_values(processor.compute_ngram_keys(grams))[0].tolist()
        g_values = {place: tuple(row) for place, row in zip(places, values, strict=True)}
    return tuple(
        TokenMark(greens.get(i), g_values.get(i, ()), not reason, reason, fresh)
        for i, (reason, fresh) in enumerate(counted)
    )


@dataclass(frozen=True, slots=True)
class NullHypothesis:
    """The hit rate of unmarked text.

    Attributes:
        depth: trials per token.
        expected: hit rate in the z-score, as configured.
        chance: exact hit rate, for the p-value.
    """

    depth: int
    expected: float
    chance: float


def null_hypothesis(processor: Any) -> NullHypothesis:
    """Return the hit rate of unmarked text under a processor."""
    scheme = processor.scheme
    if isinstance(scheme, GreenList):
        # transformers rounds the size of the list down, but computes its z-score with the ratio itself.
        share = processor.greenlist_size / processor.vocab_size
        return NullHypothesis(1, scheme.greenlist_ratio, share)
    # The share of ones in this table of random bits, which is near one half but not equal to it.
    table = float(processor.sampling_table.float().mean())
    return NullHypothesis(len(scheme.keys), table, table)


def judge_marks(
    marks: tuple[TokenMark, ...], chances: NullHypothesis, threshold: float
) -> Verdict | None:
    """Return the verdict on a text, None if no token counts."""
    counts = ((mark.scored, mark.fresh, mark.hits) for mark in marks)
    return watermark_verdict(counts, chances.depth, chances.expected, chances.chance, threshold)


def z_score_curve(marks: tuple[TokenMark, ...], chances: NullHypothesis) -> list[float | None]:
    """Return the z-score after every token."""
    return running_z_scores(((m.scored, m.hits) for m in marks), chances.depth, chances.expected)


def weighted_mean_g(marks: tuple[TokenMark, ...]) -> float | None:
    """Return SynthID's weighted mean g-value; the weights fall from 10 (first key) to 1 (last).

    Early keys mark most. Source: synthid-text, detector_mean.weighted_mean_score.
    """
    rows = [mark.g_values for mark in marks if mark.scored and mark.g_values]
    if not rows:
        return None
    depth = len(rows[0])
    step = 9 / (depth - 1) if depth > 1 else 0.0
    weights = [10 - step * i for i in range(depth)]
    total = sum(weights)
    return sum(w * g for row in rows for w, g in zip(weights, row, strict=True)) / (
        total * len(rows)
    )
