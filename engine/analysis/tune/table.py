"""The table of a plan: values, means, their order, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.analysis.tune.cell_result import CellResult
from engine.analysis.tune.measures import (
    MEASURES,
    PERPLEXITY,
    REPEATS,
    VOTES,
    measure_variety,
)
from engine.analysis.tune.plan import Cell, TunePlan
from engine.analysis.tune.votes import Vote, count_votes, votes_text
from engine.errors import ParameterError
from engine.messages import Message, join_messages
from engine.number_text import format_number
from engine.statistics.paired_bootstrap import PairedDifference, compare_pairs

_COUNTERPARTS = {PERPLEXITY: REPEATS}
"""Measure -> the one that the verdict looks at, too; perplexity for all others."""


@dataclass(frozen=True)
class TableRow:
    """A setting in the order of a measure."""

    setting: int
    mean: float | None
    """Mean over prompts and seeds; None if nothing is recorded."""
    means: tuple[float | None, ...]
    """Mean over the seeds for each prompt."""
    values: tuple[tuple[float | None, ...], ...]
    """For each prompt, one value per seed, or one for all seeds."""


class Table:
    """The results of a plan so far.

    Args:
        plan: the plan.
        votes: of blind comparisons between two of its settings.
    """

    def __init__(self, plan: TunePlan, votes: Iterable[Vote] = ()) -> None:
        self.plan, self.votes = plan, tuple(votes)
        self.results: dict[Cell, CellResult] = {}

    def add(self, result: CellResult) -> None:
        """Add a result, or replace that of the same run."""
        self.results[result.cell] = result

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of the plan, and the votes if there are any."""
        return (*self.plan.measures, *((VOTES,) if self.votes else ()))

    def find(self, setting: int, prompt: int, seed: int) -> CellResult | None:
        """Return a result; for a setting without chance, that of its only run."""
        random = self.plan.settings[setting].is_random
        return self.results.get(Cell(prompt, setting, seed if random else self.plan.seeds[0]))

    def values(self, measure: str, setting: int) -> NDArray[np.float64]:
        """Return (prompts, seeds) values, or (prompts, 1) of all seeds together; NaN for none."""
        self._check_measure(measure)
        prompts = range(len(self.plan.prompts))
        if measure == VOTES:
            found = [[count_votes(self.votes, setting, prompt).share] for prompt in prompts]
        elif MEASURES[measure].of_all_seeds:
            found = [[self._variety(setting, prompt)] for prompt in prompts]
        else:
            found = [
                [self._value(measure, setting, prompt, seed) for seed in self.plan.seeds]
                for prompt in prompts
            ]
        return np.array(found, dtype=np.float64)

    def _value(self, measure: str, setting: int, prompt: int, seed: int) -> float | None:
        result = self.find(setting, prompt, seed)
        return None if result is None else result.values.get(measure)

    def _variety(self, setting: int, prompt: int) -> float | None:
        found = [self.find(setting, prompt, seed) for seed in self.plan.seeds]
        whole = [one.token_ids for one in found if one is not None and not one.error]
        # Fewer texts have fewer repeated pairs, so their number would not be comparable.
        return measure_variety(whole) if len(whole) == len(found) else None

    def rows(self, measure: str) -> list[TableRow]:
        """Return one row per setting, in the order of a measure; those without a mean come last."""
        rows = [self._row(measure, setting) for setting in range(len(self.plan.settings))]
        sign = 1 if MEASURES[measure].lowest_first else -1
        return sorted(rows, key=lambda r: (r.mean is None, sign * (r.mean or 0.0), r.setting))

    def _row(self, measure: str, setting: int) -> TableRow:
        found = self.values(measure, setting)
        constant = not self.plan.settings[setting].is_random
        # Every seed stands for the one run of such a setting.
        shown = found[:, :1] if constant else found
        values = tuple(tuple(map(_to_value, row)) for row in shown.tolist())
        means = tuple(_mean(measure, np.array(row)) for row in found)
        # Votes are counted: a prompt with more of them counts more.
        counted = measure == VOTES
        mean = count_votes(self.votes, setting).share if counted else _mean(measure, found)
        return TableRow(setting, mean, means, values)

    def verdict(self, measure: str) -> str:
        """Return what the table says by one measure, and what qualifies it.

        A lead is called one only if the 95 % interval of the paired difference excludes 0, and the
        difference exceeds the spread of the seeds; for votes, see ``votes_text``.
        """
        rows = [row for row in self.rows(measure) if row.mean is not None]
        if len(rows) < 2:
            return Message("Two settings with this measure are needed for a comparison.")
        if measure == VOTES:
            ranked = [row.setting for row in rows]
            leader = votes_text(self.votes, ranked, self.plan.names)
            # A server that keeps no runs, or no longer has these, knows the votes alone.
            if not self.results:
                return leader
        else:
            leader = self._leader_text(measure, rows)
        return join_messages([leader, self._counter_text(measure, rows)])

    def compare(self, measure: str, a: int, b: int) -> PairedDifference | None:
        """Return how much larger setting ``a`` is than ``b``, of logarithms for a factor."""
        pair = [self.values(measure, setting) for setting in (a, b)]
        if MEASURES[measure].is_logarithmic:
            pair = [np.log(one) for one in pair]
        return compare_pairs(*pair)

    def _leader_text(self, measure: str, rows: Sequence[TableRow]) -> str:
        first, second = rows[0], rows[1]
        names, declared = self.plan.names, MEASURES[measure]
        found = self.compare(measure, first.setting, second.setting)
        values = {
            "a": names[first.setting],
            "b": names[second.setting],
            "x": format_measure(measure, first.mean),
            "y": format_measure(measure, second.mean),
            "leads": declared.leads,
            "interval": _format_interval(measure, found),
        }
        if first.mean == second.mean:
            return Message("{a} and {b} have the same mean: {x}.", **values)
        if found is None or found.low is None or self._has_one_seed(first, second):
            return Message(
                "{a} {leads} in these texts: {x}. They are too few to compare it with {b}.",
                **values,
            )
        if found.is_clear:
            return Message(
                "{a} {leads}: {x}. {b} comes next: {y} (difference {interval}).", **values
            )
        return Message(
            "No clear lead: {a} has {x} and {b} has {y}, and the difference is within the spread "
            "({interval}).",
            **values,
        )

    def _has_one_seed(self, *rows: TableRow) -> bool:
        """Return whether the spread of the seeds is unknown."""
        random = any(self.plan.settings[row.setting].is_random for row in rows)
        return random and len(self.plan.seeds) == 1

    def _counter_text(self, measure: str, rows: Sequence[TableRow]) -> str:
        """Return what another measure says of the leader."""
        counter = _COUNTERPARTS.get(measure, PERPLEXITY)
        if counter not in self.plan.measures:
            return Message("No other measure was recorded that could qualify this.")
        first, name = rows[0].setting, self.plan.names[rows[0].setting]
        ranked = [row for row in self.rows(counter) if row.mean is not None]
        if not any(row.setting == first for row in ranked):
            return Message("How natural its texts are is not recorded.")
        worst, best = ranked[-1], ranked[0]
        if worst.setting == first and worst.mean != best.mean:
            value = format_measure(counter, worst.mean)
            if counter == PERPLEXITY:
                return Message(
                    "But its texts are also the strangest: perplexity {value}.", value=value
                )
            return Message("But it also repeats most: {value}.", value=value)
        if best.setting == first:
            return Message("{name} also {leads}.", name=name, leads=MEASURES[counter].leads)
        return Message(
            "{other} {leads}.",
            other=self.plan.names[best.setting],
            leads=MEASURES[counter].leads,
        )

    def _check_measure(self, measure: str) -> None:
        if measure not in self.measures:
            allowed = Message("it must be one of {choices}", choices=", ".join(self.measures))
            raise ParameterError("measure", measure, allowed)


def _to_value(number: float) -> float | None:
    return None if math.isnan(number) else number


def _mean(measure: str, values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    if not known.size:
        return None
    if MEASURES[measure].is_logarithmic:
        return float(np.exp(np.log(known).mean()))
    return float(known.mean())


def format_measure(measure: str, value: float | None) -> str:
    """Return a value as a reader sees it: a whole percent, or two significant digits."""
    if value is None:
        return Message("not recorded")
    if not MEASURES[measure].is_share:
        return format_number(value, 2)
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 1 or percent == 0 else f"{percent:.1f} %"


def _format_interval(measure: str, found: PairedDifference | None) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    ends: Any = found.low, found.high
    if MEASURES[measure].is_logarithmic:
        low, high = (format_number(math.exp(end), 2) for end in ends)
        return Message("factor {low} to {high}", low=low, high=high)
    if MEASURES[measure].is_share:
        low, high = (format_number(100 * end, 2) for end in ends)
        return Message("{low} to {high} points", low=low, high=high)
    low, high = (format_number(end, 2) for end in ends)
    return Message("{low} to {high}", low=low, high=high)
