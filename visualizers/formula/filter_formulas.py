"""The formula of each filter that has one, found by the filter's name; forms.mjs draws it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.processors import FILTERS
from engine.processors.filter import CUTS
from engine.trace.records import Candidate, Stage, Step
from visualizers.formula.forms import fill_formula, formula_without_numbers, number_setting

FormulaLine = dict[str, Any]
_CUTS = frozenset(one.name for one in FILTERS.values() if one.effect == CUTS)
ORDER_PRESERVING = _CUTS | {"Temperature"}
"""Filters that keep the order of the tokens and that the softmax formula knows."""


@dataclass(frozen=True)
class FilterStage:
    """A filter at work in a step.

    Attributes:
        step: a step with candidates and stages.
        own: the chosen candidate.
        place: index of the filter's stage.
        config: settings of the run.
    """

    step: Step
    own: Candidate
    place: int
    config: Mapping[str, Any]

    @property
    def stage(self) -> Stage:
        """The filter's stage."""
        return self.step.stages[self.place]

    @property
    def left(self) -> list[Candidate]:
        """The candidates that no filter removed, most probable first."""
        return [c for c in self.step.candidates if c.processed_logprob > -math.inf]

    @property
    def share(self) -> float:
        """The factor that turns a final probability into one that this filter saw.

        Each filter renormalises the rest; the kept masses convert probabilities back.
        """
        return math.prod(later.kept_mass for later in self.step.stages[self.place :])

    @property
    def is_known(self) -> bool:
        """Whether only filters follow that keep the scores of the tokens they leave."""
        return _CUTS.issuperset(later.name for later in self.step.stages[self.place + 1 :])


def _top_k(view: FilterStage) -> FormulaLine | None:
    if not ORDER_PRESERVING.issuperset(earlier.name for earlier in view.step.stages[: view.place]):
        return None
    limit = int(number_setting(view.config, "top_k", view.stage.kept))
    return fill_formula("top_k", view.own.token_id, n=view.own.rank + 1, k=limit)


def _top_p(view: FilterStage) -> FormulaLine | None:
    if not view.is_known:
        return None
    stage, left, limit = view.stage, view.left, number_setting(view.config, "top_p", 1.0)
    last = view.step.stages[-1].name == "TopP" and len(left) == stage.kept > 1
    if not last:
        return fill_formula("top_p", None, m=stage.kept_mass, c=limit)
    least = math.exp(left[-1].processed_logprob) * view.share
    # A token kept for another reason (min_tokens_to_keep) is not the last of the nucleus.
    if stage.kept_mass - least >= limit:
        return None
    operands = {"m": stage.kept_mass, "b": least, "c": limit}
    return fill_formula("top_p_last", left[-1].token_id, **operands)


def _min_p(view: FilterStage) -> FormulaLine | None:
    if not view.is_known or not view.left:
        return None
    best = view.left[0]
    most = math.exp(best.processed_logprob) * view.share
    return fill_formula("min_p", best.token_id, a=number_setting(view.config, "min_p", 0.0), b=most)


def _top_n_sigma(view: FilterStage) -> FormulaLine | None:
    del view
    # The record does not have the deviation of all logits.
    return formula_without_numbers("top_n_sigma")


def _xtc(view: FilterStage) -> FormulaLine | None:
    coin, limit = view.stage.state, number_setting(view.config, "xtc_probability", 0.0)
    if coin is None:
        return None
    if coin > limit:
        return fill_formula("xtc_rests", None, c=coin, p=limit)
    threshold = number_setting(view.config, "xtc_threshold", 0.0)
    return fill_formula("xtc", None, c=coin, p=limit, t=threshold)


def _mirostat(view: FilterStage) -> FormulaLine | None:
    cap = view.stage.state
    if cap is None or not view.is_known:
        return None
    p = math.exp(view.own.processed_logprob) * view.share
    return fill_formula("mirostat", view.own.token_id, p=p, m=cap)


def _adaptive_p(view: FilterStage) -> FormulaLine | None:
    earlier = view.step.stages[: view.place]
    if view.stage.state is None or not _CUTS.issuperset(stage.name for stage in earlier):
        # The record does not have the probability that the filter received.
        return formula_without_numbers("adaptive_p")
    p = math.exp(view.own.raw_logprob) / math.prod(stage.kept_mass for stage in earlier)
    return fill_formula("adaptive_p", view.own.token_id, p=p, t=view.stage.state)


FILTER_FORMULAS: Mapping[str, Callable[[FilterStage], FormulaLine | None]] = {
    "TopK": _top_k,
    "TopP": _top_p,
    "MinP": _min_p,
    "TopNSigma": _top_n_sigma,
    "XTC": _xtc,
    "Mirostat": _mirostat,
    "AdaptiveP": _adaptive_p,
}
"""Name of a filter -> its formula, or None where the record does not have its numbers."""
