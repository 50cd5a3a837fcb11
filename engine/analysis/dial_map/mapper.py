"""Follows all texts of a dial map, step by step."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch

from engine.analysis.dial_map.decisions import Decider, TextScores
from engine.analysis.dial_map.dials import Ticks
from engine.analysis.dial_map.passes import BatchedPasses, SinglePasses
from engine.errors import Cancelled, DecodeError
from engine.loops.exponential_race import draw_noise
from engine.loops.recorder import round_decimals


@dataclass(frozen=True)
class Leaf:
    """A text, and the ticks of the dial that write it.

    Attributes:
        first: lowest tick.
        last: highest tick.
        ids: tokens so far.
        ranks: their ranks in the model's distribution, from 1.
        logprobs: their log-probabilities there, in nats.
        end: one of ``engine.trace.dial_map.ENDS``.
        row: place of its value among those of a second dial.
    """

    first: int
    last: int
    ids: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    end: str = ""
    row: int = 0


Part = tuple[int, int, int]
"""First tick, last tick and token of a part of a leaf."""


class Mapper:
    """Grows the texts of a map by one token per step.

    Args:
        passes: the model's passes, before the first one.
        decider: the run's processors.
        ticks: the values of the dial.
        seed: of the run.
        eos_token_ids: ids that end a text.
        length: most tokens of a text of the map.
        max_new_tokens: most tokens of a text of a run.
        max_texts: texts that are followed; the widest intervals are.
        decide_all: whether to decide every tick instead of bisecting.
        second: values of a second dial, each with a row of texts; empty for one dial.
        cancelled: stops within one step when set.

    Attributes:
        leaves: all texts so far, in order of the second dial's row, then of the dial.
        steps: number of steps done.
        decided_alone: steps of a text that were decided by passes alone.
    """

    def __init__(
        self,
        passes: BatchedPasses | SinglePasses,
        decider: Decider,
        ticks: Ticks,
        *,
        seed: int,
        eos_token_ids: Collection[int],
        length: int,
        max_new_tokens: int,
        max_texts: int,
        decide_all: bool,
        cancelled: threading.Event,
        second: Sequence[float] = (),
    ) -> None:
        self.passes, self.decider, self.ticks = passes, decider, ticks
        self.generator = torch.Generator().manual_seed(seed)
        self.eos_token_ids, self.length = frozenset(eos_token_ids), length
        self.max_new_tokens, self.max_texts = max_new_tokens, max_texts
        self.decide_all, self.cancelled = decide_all, cancelled
        self.second = tuple(second)
        self.leaves = [
            Leaf(ticks.first, ticks.last, row=row) for row in range(max(1, len(self.second)))
        ]
        self.steps = self.decided_alone = 0
        self._rows: dict[tuple[int, ...], int] = {(): 0}

    @property
    def is_complete(self) -> bool:
        """Whether every text has ended."""
        return all(leaf.end for leaf in self.leaves)

    def advance(self) -> None:
        """Decide the next token of every text.

        Raises:
            Cancelled: ``cancelled`` was set.
            DecodeError: the model's logits are not finite.
        """
        # Not a decorator: torch is not loaded yet when the page starts.
        with torch.inference_mode():
            self._decide_next_tokens()

    def _decide_next_tokens(self) -> None:
        live = [leaf for leaf in self.leaves if not leaf.end]
        logits = self.passes.read()
        # One row of noise for all texts: a run of one text draws (1, vocab) per pass, whatever its dial says.
        noise = draw_noise(logits[:1], self.generator)
        step = self.decider.prepare_step(self.passes.ids, logits, noise, self.passes.margin)
        rows = [self._rows[leaf.ids] for leaf in live]
        parts = self._split_leaves(step, live, rows)
        grown = self._grow(step, live, rows, parts)
        self.steps += 1
        ended = [leaf for leaf in self.leaves if leaf.end]
        # A text that is not followed costs nothing more, so it takes no other's place.
        whole = sum(leaf.end != "not_followed" for leaf in ended)
        kept = self._limit_texts(grown, whole)
        self.leaves = sorted([*ended, *kept], key=lambda x: (x.row, x.first))
        self._branch([leaf for leaf in self.leaves if not leaf.end])

    def _split_leaves(
        self, step: TextScores, live: Sequence[Leaf], rows: Sequence[int]
    ) -> list[list[Part]]:
        """Return the parts of every leaf; decide texts with an uncertain token by passes alone."""
        parts, uncertain = self._split(step, live, rows)
        if uncertain:
            for row in sorted(uncertain):
                self._check_cancelled()
                self.decider.replace_row(step, row, self.passes.read_alone(row))
            self.decided_alone += len(uncertain)
            again = [i for i, row in enumerate(rows) if row in uncertain]
            exact = replace(step, margin=0.0)
            found, _ = self._split(exact, [live[i] for i in again], [rows[i] for i in again])
            for i, own in zip(again, found, strict=True):
                parts[i] = own
        return parts

    def _split(
        self, step: TextScores, live: Sequence[Leaf], rows: Sequence[int]
    ) -> tuple[list[list[Part]], set[int]]:
        """Return the parts of every leaf, and the rows of texts with an uncertain token.

        The ends of a leaf are decided, then repeatedly the middle between neighbours that differ.
        """
        known: list[dict[int, int]] = [{} for _ in live]
        uncertain: set[int] = set()

        def decide(pairs: Sequence[tuple[int, int]], *, check: bool) -> None:
            self._check_cancelled()
            own = [rows[i] for i, _ in pairs]
            values = [[self.ticks.value(tick) for _, tick in pairs]]
            if self.second:
                values.append([self.second[live[i].row] for i, _ in pairs])
            tokens, unsure = self.decider.decide(step, own, *values, check=check)
            uncertain.update(row for row, doubt in zip(own, unsure, strict=True) if doubt)
            for (i, tick), token in zip(pairs, tokens, strict=True):
                known[i][tick] = token

        if self.decide_all:
            every = [
                (i, t) for i, leaf in enumerate(live) for t in range(leaf.first, leaf.last + 1)
            ]
            decide(every, check=True)
        else:
            ends = [(i, t) for i, leaf in enumerate(live) for t in {leaf.first, leaf.last}]
            decide(ends, check=True)
            gaps = [(i, leaf.first, leaf.last) for i, leaf in enumerate(live)]
            # Nothing is decided between equal tokens: the theorem in dials.py proves what lies there.
            while gaps := [gap for gap in gaps if _is_open(known[gap[0]], gap)]:
                middles = [(i, (a + b) // 2) for i, a, b in gaps]
                decide(middles, check=False)
                gaps = [
                    half
                    for (i, a, b), (_, middle) in zip(gaps, middles, strict=True)
                    for half in ((i, a, middle), (i, middle, b))
                ]
        parts = [_to_parts(own) for own in known]
        if step.margin and not self.decide_all:
            decide(self._ticks_at_new_edges(live, parts), check=True)
        return parts, uncertain

    def _ticks_at_new_edges(
        self, live: Sequence[Leaf], parts: Sequence[Sequence[Part]]
    ) -> list[tuple[int, int]]:
        """Return (leaf, tick) just outside the width of every edge that this step made.

        If these are certain, so is all between them; an edge itself is always a near tie.
        """
        found: list[tuple[int, int]] = []
        for i, (leaf, own) in enumerate(zip(live, parts, strict=True)):
            for first, last, _ in own:
                if not self.ticks.is_wide(first, last):
                    continue
                low, high = self.ticks.inside(first, last)
                found += [(i, low)] if first != leaf.first else []
                found += [(i, high)] if last != leaf.last else []
        return found

    def _grow(
        self,
        step: TextScores,
        live: Sequence[Leaf],
        rows: Sequence[int],
        parts: Sequence[Sequence[Part]],
    ) -> list[Leaf]:
        """Return the leaves with the tokens of their parts."""
        flat = [(i, part) for i, own in enumerate(parts) for part in own]
        where = torch.tensor([rows[i] for i, _ in flat])
        tokens = torch.tensor([token for _, (_, _, token) in flat])[:, None]
        chosen = step.logits[where].gather(1, tokens)
        logprobs: list[float] = (chosen[:, 0] - step.logits.logsumexp(-1)[where]).tolist()
        # Only NaN differs from itself.
        if any(value != value for value in logprobs):
            raise DecodeError(
                "The model's logits are not finite at token {length}.", length=self.steps
            )
        ranks: list[int] = (1 + (step.logits[where] > chosen).sum(-1)).tolist()
        grown: list[Leaf] = []
        for (i, (first, last, token)), rank, logprob in zip(flat, ranks, logprobs, strict=True):
            leaf = live[i]
            grown.append(
                Leaf(
                    first,
                    last,
                    (*leaf.ids, token),
                    (*leaf.ranks, rank),
                    (*leaf.logprobs, round_decimals(logprob)),
                    self._end_of(token),
                    leaf.row,
                )
            )
        return grown

    def _end_of(self, token: int) -> str:
        if token in self.eos_token_ids:
            return "eos"
        if self.steps + 1 == self.max_new_tokens:
            return "length"
        return "cut" if self.steps + 1 == self.length else ""

    def _limit_texts(self, grown: Sequence[Leaf], ended: int) -> list[Leaf]:
        """Return the leaves, of which only the widest are followed once there are too many."""
        value = self.ticks.value
        by_width = sorted(grown, key=lambda leaf: value(leaf.first) - value(leaf.last))
        free = max(0, self.max_texts - ended)
        rest = [replace(leaf, end=leaf.end or "not_followed") for leaf in by_width[free:]]
        return [*by_width[:free], *rest]

    def _branch(self, live: Sequence[Leaf]) -> None:
        """Continue the passes with the texts that have not ended."""
        if not live:
            return
        before, self._rows = self._rows, {}
        for leaf in live:
            # Two intervals that are no neighbours may write one text; they share its row.
            self._rows.setdefault(leaf.ids, len(self._rows))
        self.passes.branch(
            [before[ids[:-1]] for ids in self._rows], [ids[-1] for ids in self._rows]
        )

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled


def _is_open(known: dict[int, int], gap: tuple[int, int, int]) -> bool:
    """Return whether an edge lies between two ticks that are not neighbours."""
    _, first, last = gap
    return known[first] != known[last] and last - first > 1


def _to_parts(known: dict[int, int]) -> list[Part]:
    """Return the parts of a leaf; what lies between two equal tokens is equal."""
    parts: list[Part] = []
    for tick, token in sorted(known.items()):
        if parts and parts[-1][2] == token:
            parts[-1] = (parts[-1][0], tick, token)
        else:
            parts.append((tick, tick, token))
    return parts
