"""Parameters that have an effect only while another parameter has a certain value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import defaults_of, params_of
from engine.loops.diffusion import ENTROPY_BOUND
from engine.messages import Message
from engine.strategies.base import Strategy
from engine.strategies.shared_params import SamplingParams
from engine.strategies.watermark import GreenListParams, SynthIdParams


@dataclass(frozen=True)
class ParameterCondition:
    """The condition under which a parameter has an effect."""

    name: str
    """The controlling parameter; empty if the parameter never has an effect."""
    values: tuple[Any, ...]
    """Values of the controlling parameter that enable it."""
    why: str
    """One sentence shown while the parameter is disabled."""


_NEEDS_SAMPLING = ParameterCondition("do_sample", (True,), "This works only while Sample is on.")
_NEEDS_GREENLIST = ParameterCondition("scheme", ("greenlist",), "Only green lists use this.")
_NEEDS_BOUND = ParameterCondition(
    "remasking", (ENTROPY_BOUND,), "Only the order entropy_bound uses this."
)
_NEEDS_TREE = ParameterCondition("draft_tree", (True,), "Only draft trees use this.")
_NEEDS_LINE = ParameterCondition("draft_tree", (False,), "A draft tree has its own size.")
_NEEDS_SYNTHID = ParameterCondition("scheme", ("synthid",), "Only SynthID uses this.")

_TREE_PARAMETERS = tuple(f"draft_tree_{name}" for name in ("depth", "top_k", "nodes", "widths"))
_LINE_PARAMETERS = (
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_confidence_schedule",
)


def conditional_parameters(strategy: Strategy) -> dict[str, ParameterCondition]:
    """Return the condition of each parameter, ``seed`` included, that does not always act."""
    # Tests change each parameter while it is disabled and expect the same text.
    own = params_of(strategy.config)
    found: dict[str, ParameterCondition] = {}
    for names, only in (
        (_param_names(SamplingParams), _NEEDS_SAMPLING),
        (("distribution_runs",), _NEEDS_SAMPLING),
        (_param_names(GreenListParams), _NEEDS_GREENLIST),
        (_param_names(SynthIdParams), _NEEDS_SYNTHID),
        (("entropy_bound",), _NEEDS_BOUND),
        (_TREE_PARAMETERS, _NEEDS_TREE),
        (_LINE_PARAMETERS, _NEEDS_LINE),
    ):
        if only.name in own:
            found |= {name: only for name in names if name in own}
    seed = _seed_condition(strategy)
    return found if seed is None else {**found, "seed": seed}


def is_seed_used(strategy: Strategy, params: Mapping[str, Any]) -> bool:
    """Return whether another seed can give another text.

    Args:
        strategy: the strategy.
        params: values of its parameters; the others are at their defaults.
    """
    only = _seed_condition(strategy)
    if only is None:
        return True
    value = params.get(only.name, defaults_of(strategy.config).get(only.name))
    return bool(only.name) and value in only.values


def _seed_condition(strategy: Strategy) -> ParameterCondition | None:
    if strategy.loop is None:
        return None  # a custom method draws in its own way
    if "do_sample" in params_of(strategy.config):
        return ParameterCondition("do_sample", (True,), "The seed works only while Sample is on.")
    # Without the parameter a strategy samples always or never.
    if strategy.generate_kwargs(strategy.config()).get("do_sample"):
        return None
    return ParameterCondition(
        "",
        (),
        Message(
            "Nothing is random in {strategy}: every seed gives the same text.",
            strategy=strategy.title.lower(),
        ),
    )


def _param_names(params: type) -> Iterable[str]:
    return tuple(params_of(params))
