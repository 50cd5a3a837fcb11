"""Measures of compared runs over several seeds, and what they say of each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from visualizers.compare.summary import ComparedRun

BySeed = Sequence[Mapping[str, ComparedRun]]
"""Compared runs by label, for each seed."""


@dataclass(frozen=True)
class _Measure:
    """A number of a run, and how its bars are scaled."""

    name: str
    read: Callable[[ComparedRun], float | None]
    is_logarithmic: bool = False
    """Whether the bars show the logarithm, and the mean is geometric; values are 1 or more."""

    def mean(self, values: Sequence[float]) -> float:
        if not self.is_logarithmic:
            return math.fsum(values) / len(values)
        return math.exp(math.fsum(map(math.log, values)) / len(values))

    def length(self, value: float) -> float:
        return max(0.0, math.log(value)) if self.is_logarithmic else value


_PERPLEXITY = _Measure("perplexity", lambda run: run.perplexity, is_logarithmic=True)
_REPEATS = _Measure("repeats", lambda run: run.trace.metrics.get("rep_3"))
_PASSES = _Measure("passes", lambda run: run.trace.metrics.get("forward_passes"))
_TOKENS = _Measure(
    "tokens", lambda run: len(run.trace.outputs[0].token_ids) if run.trace.outputs else None
)
_MEASURES = (
    _PERPLEXITY,
    _REPEATS,
    _Measure("variety", lambda run: run.trace.metrics.get("distinct_1")),
    _TOKENS,
    _PASSES,
    _Measure("seconds", lambda run: run.seconds),
)


def compute_measures(by_seed: BySeed) -> list[dict[str, Any]]:
    """Return the table of measures, one row per measure and one cell per label.

    A cell has the ``mean`` over the seeds, None if no seed has a value, its ``share`` of the
    longest bar of the row from 0 to 1, and ``ticks``: value and share of each seed that has one.
    """
    return [_measure_row(measure, by_seed) for measure in _MEASURES]


def _measure_row(measure: _Measure, by_seed: BySeed) -> dict[str, Any]:
    found = {label: _values(measure, by_seed, label) for label in _labels(by_seed)}
    longest = max((measure.length(v) for values in found.values() for v in values), default=0.0)

    def share(value: float) -> float:
        return measure.length(value) / longest if longest else 0.0

    def cell(values: Sequence[float]) -> dict[str, Any]:
        mean = measure.mean(values) if values else None
        return {
            "mean": mean,
            "share": 0.0 if mean is None else share(mean),
            "ticks": [{"value": value, "share": share(value)} for value in values],
        }

    return {"name": measure.name, "cells": [cell(values) for values in found.values()]}


def _labels(by_seed: BySeed) -> list[str]:
    return sorted({label for runs in by_seed for label in runs})


def _values(measure: _Measure, by_seed: BySeed, label: str) -> list[float]:
    found = (measure.read(runs[label]) for runs in by_seed if label in runs)
    return [value for value in found if value is not None]


def find_verdict(by_seed: BySeed) -> dict[str, Any]:
    """Return what the measures say: the likeliest text with what qualifies it, and the costs.

    ``likeliest`` is None for fewer than two scored labels. Otherwise it has the labels ``best``,
    ``rival`` (the second) and ``worst`` with the perplexities of best and worst, ``is_equal``
    whether all are equally likely, ``repeats`` the best's share of repeated n-grams if no other
    text has as large a one, and ``in_spread`` whether some seed of the best is less likely than
    some seed of the rival.

    ``passes`` is None for fewer than two labels. Otherwise it has ``least`` and ``most``, those
    with the fewest and the most forward passes per token, and ``per_token``: whether each took one
    pass per token.
    """
    return {"likeliest": _find_likeliest(by_seed), "passes": _find_passes(by_seed)}


def _find_likeliest(by_seed: BySeed) -> dict[str, Any] | None:
    values = {label: _values(_PERPLEXITY, by_seed, label) for label in _labels(by_seed)}
    means = {label: _PERPLEXITY.mean(found) for label, found in values.items() if found}
    if len(means) < 2:
        return None
    order = sorted(means, key=means.__getitem__)
    best, rival, worst = order[0], order[1], order[-1]
    return {
        "best": best,
        "rival": rival,
        "worst": worst,
        "best_perplexity": means[best],
        "worst_perplexity": means[worst],
        "is_equal": math.isclose(means[best], means[worst], rel_tol=1e-6),
        "repeats": _largest_repeats(by_seed, best),
        "in_spread": max(values[best]) > min(values[rival]),
    }


def _largest_repeats(by_seed: BySeed, best: str) -> float | None:
    found = {label: _values(_REPEATS, by_seed, label) for label in _labels(by_seed)}
    means = {label: _REPEATS.mean(values) for label, values in found.items() if values}
    own = means.pop(best, 0.0)
    return own if own > max(means.values(), default=0.0) else None


def _find_passes(by_seed: BySeed) -> dict[str, Any] | None:
    found = []
    for label in _labels(by_seed):
        passes, tokens = (_values(m, by_seed, label) for m in (_PASSES, _TOKENS))
        if passes and math.fsum(tokens):
            found.append(
                {"label": label, "passes": _PASSES.mean(passes), "tokens": _TOKENS.mean(tokens)}
            )
    if len(found) < 2:
        return None
    order = sorted(found, key=lambda cost: cost["passes"] / cost["tokens"])
    return {
        "least": order[0],
        "most": order[-1],
        "per_token": all(cost["passes"] == cost["tokens"] for cost in found),
    }
