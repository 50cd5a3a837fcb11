"""Which parameters act only while another has a certain value: the page puts the others off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.declare.config import SamplingParams
from engine.declare.params import params_of
from engine.strategies.base import Strategy
from engine.strategies.watermark import GreenListParams, SynthIdParams


@dataclass(frozen=True)
class Only:
    """Where a parameter acts."""

    name: str
    """The parameter it depends on; empty where it never acts."""
    values: tuple[Any, ...]
    """It acts while that one has any of these."""
    why: str
    """One sentence for everywhere else."""


_DRAWN = Only("do_sample", (True,), "It acts on draws, and nothing is drawn while Sample is off.")
_GREEN = Only("scheme", ("greenlist",), "It belongs to green lists.")
_SYNTHID = Only("scheme", ("synthid",), "It belongs to SynthID.")


def acting(strategy: Strategy) -> dict[str, Only]:
    """Return the parameters of a strategy, and its ``seed``, that do not always act."""
    own = params_of(strategy.config)
    found: dict[str, Only] = {}
    for names, only in (
        (_names(SamplingParams), _DRAWN),
        (("distribution_runs",), _DRAWN),
        (_names(GreenListParams), _GREEN),
        (_names(SynthIdParams), _SYNTHID),
    ):
        if only.name in own:
            found |= {name: only for name in names if name in own}
    seed = _seed(strategy)
    return found if seed is None else {**found, "seed": seed}


def _seed(strategy: Strategy) -> Only | None:
    if strategy.loop is None:
        return None  # what a method draws is its own affair
    if "do_sample" in params_of(strategy.config):
        return Only("do_sample", (True,), "Nothing is drawn while Sample is off.")
    if strategy.generate_kwargs(strategy.config()).get("do_sample"):
        return None
    return Only("", (), f"Nothing is drawn in {strategy.title.lower()}: every seed gives one text.")


def _names(params: type) -> Iterable[str]:
    return tuple(params_of(params))
