"""What the compare tab may offer: strategies with their parameters, models, drafts, presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.groups import FOLDED
from engine.declare.params import Choice, Flag, Integer, Number, Param, defaults_of, params_of
from engine.models.catalogue import CATALOGUE, drafts_for
from engine.strategies import STRATEGIES
from engine.strategies.base import STORY, Strategy
from playground import controls

LABELS = ("A", "B", "C", "D")


@dataclass(frozen=True)
class ComparePreset:
    """A named comparison; it is offered when all its strategies are registered."""

    name: str
    prompt: str
    columns: tuple[tuple[str, dict[str, Any]], ...]
    shows: str


_PRESETS = (
    ComparePreset(
        "Greedy and three temperatures",
        STORY,
        (
            ("greedy", {"max_new_tokens": 40}),
            ("sampling", {"max_new_tokens": 40, "temperature": 0.5, "top_k": 0}),
            ("sampling", {"max_new_tokens": 40, "temperature": 1.0, "top_k": 0}),
            ("sampling", {"max_new_tokens": 40, "temperature": 1.6, "top_k": 0}),
        ),
        "The hotter, the sooner the texts part and the less likely they are.",
    ),
    ComparePreset(
        "Beam search and greedy",
        "One day, a little boy found a",
        (
            ("beam_search", {"max_new_tokens": 24, "num_beams": 5}),
            ("greedy", {"max_new_tokens": 24}),
        ),
        "Beams find a text the model holds more probable, for more work.",
    ),
    ComparePreset(
        "With a watermark and without",
        STORY,
        (
            ("watermark", {"max_new_tokens": 60, "bias": 3.0}),
            ("sampling", {"max_new_tokens": 60}),
        ),
        "The price of the mark: the base model finds marked text less likely.",
    ),
    ComparePreset(
        "Speculative and plain",
        "A brave little mouse lived under the old tree. One morning",
        (
            (
                "speculative",
                {
                    "max_new_tokens": 60,
                    "num_assistant_tokens": 6,
                    "assistant_confidence_threshold": 0.0,
                },
            ),
            ("greedy", {"max_new_tokens": 60}),
        ),
        "The same tokens from fewer forward passes of the big model.",
    ),
)


def presets() -> list[ComparePreset]:
    """Return the presets whose strategies are there."""
    return [p for p in _PRESETS if all(name in STRATEGIES for name, _ in p.columns)]


def spec() -> dict[str, Any]:
    """Return all the page needs to draw its controls, as plain JSON values."""
    return {
        "labels": LABELS,
        "groups": FOLDED,
        "strategies": [_strategy(s) for s in STRATEGIES.values()],
        "models": [
            {"name": e.name, "title": f"{e.title} · {e.parameters}", "role": e.role}
            for e in CATALOGUE.values()
            if e.available
        ],
        "drafts": _drafts(),
        "presets": [
            {
                "name": p.name,
                "prompt": p.prompt,
                "shows": p.shows,
                "columns": [{"strategy": n, "params": v} for n, v in p.columns],
            }
            for p in presets()
        ],
    }


def _drafts() -> dict[str, dict[str, list[str]]]:
    """Return tokenizer kind -> target -> names of fitting drafts."""
    targets = [e.name for e in CATALOGUE.values() if e.available]
    return {
        kind: {target: [e.name for e in drafts_for(target, kind)] for target in targets}
        for kind in ("same_tokenizer", "any_tokenizer")
    }


def _strategy(strategy: Strategy) -> dict[str, Any]:
    kinds, defaults = params_of(strategy.config), defaults_of(strategy.config)
    return {
        "name": strategy.name,
        "title": strategy.title,
        "family": strategy.family,
        "model": strategy.default_model,
        "assistant": strategy.default_assistant or "",
        "draft": strategy.assistant,
        "params": [_param(name, kind, defaults[name]) for name, kind in kinds.items()],
    }


def _param(name: str, kind: Param, default: Any) -> dict[str, Any]:
    about: dict[str, Any] = {
        "name": name,
        "label": kind.label,
        "help": kind.help,
        "group": kind.group,
        "optional": kind.optional,
        "value": controls.show(kind, default),
    }
    if isinstance(kind, Flag):
        return about | {"kind": "flag"}
    if isinstance(kind, Choice):
        return about | {"kind": "choice", "choices": [controls.show(kind, c) for c in kind.choices]}
    if isinstance(kind, (Number, Integer)):
        bounds = {"minimum": kind.minimum, "maximum": kind.maximum, "step": kind.step}
        return about | {"kind": "number", **bounds}
    return about | {"kind": "text"}
