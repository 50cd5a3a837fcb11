"""What a strategy is: a declaration from which tab, validation, CLI, API, code and docs follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.declare.groups import FAMILIES, one_of
from engine.declare.own_loop import OwnLoop, never
from engine.loops.recorder import Recorder

STORY = "Once upon a time, there was a little frog who"
"""An opening that the embedded model continues in many ways; some others it knows by heart."""


@dataclass(frozen=True)
class Preset:
    """A named starting point whose effect a test measures."""

    name: str
    prompt: str
    params: Mapping[str, Any]
    shows: str
    """One sentence: what to look at."""
    look_at: int = 1
    """Number, from 1, of the step at which its recorded run is opened: one worth seeing."""
    seed: int = 0
    model: str | None = None
    """Name of a model; None is the strategy's own."""
    image: str | None = None
    """What a model that reads pictures is given: ``example:`` and a name; the prompt may be empty then."""
    audio: str | None = None
    """The same for a model that listens."""


@dataclass(frozen=True)
class Context:
    """What a strategy may look at when a run is prepared."""

    config: Any
    """The strategy's own config dataclass, already validated."""
    target: Any
    """models.LoadedModel."""
    assistant: Any
    """models.LoadedModel or None."""
    prompt_ids: torch.Tensor
    """(1, length) ids."""
    recorder: Recorder
    generator: torch.Generator
    """On the model's device, seeded with the request's seed."""


def no_extra(context: Context) -> dict[str, Any]:
    """Most loops need nothing beyond what generate() prepares."""
    del context
    return {}


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One decoding strategy, declared in one file.

    Raises:
        ValueError: there is no such family.
    """

    name: str
    """Stable name in the CLI, the API, traces and links."""
    title: str
    family: str
    """A name of declare.groups.FAMILIES: strategies of one kind stand side by side."""
    summary: str
    """One paragraph for somebody who has not read the paper."""
    helps: str
    """When it helps, and when it hurts; ``{strategy-1.figure}`` quotes a recorded run, see
    engine/after/first_visit.py."""
    turns: str
    """What its main parameter does."""
    paper: str
    """Author, year and arXiv id."""
    config: type
    """Frozen dataclass whose fields are Params."""
    loop: Callable[..., Any] | None
    """Generator of Steps, see loops/; None where code that is not ours decides, see run/hosted.py."""
    generate_kwargs: Callable[[Any], dict[str, Any]]
    """config -> what selects this mode in transformers' generate(): do_sample, num_beams, …"""
    prepare: Callable[[Context], dict[str, Any]] = no_extra
    """Extra keyword arguments for the loop (a draft model, a detector)."""
    presets: tuple[Preset, ...] = ()
    short: str = ""
    """Its name where there is little room; empty where the title is short enough."""
    visuals: tuple[str, ...] = ()
    """Names of what the tab draws besides the token strip: chart, xray, draw, tree, timeline, …"""
    assistant: str = "none"
    """none, same_tokenizer or any_tokenizer."""
    moved_to: str | None = None
    """Hub repository transformers moved it to, None while it lives in the core."""
    default_model: str = "storyteller"
    default_assistant: str | None = None
    needs: tuple[str, ...] = ()
    """Names of strategies.refusal.NEEDS: what a model must be able to do to serve."""
    draft_needs: tuple[str, ...] = ()
    """The same of the draft model."""
    reorders: bool = False
    """The rows of the cache are rearranged: without a cache where the model's cannot be."""
    one_shape: bool = False
    """Every pass but the first reads one token of each row of the same batch, so that a GPU can repeat it."""
    shares: bool = False
    """It decides by the logits after the newest token alone, so that other runs may go along in its passes."""
    one_by_one: bool = False
    """Run num_return_sequences one at a time (their rows would influence each other)."""
    own_loop: Callable[[Any], OwnLoop | None] = never
    """config -> the loop that exported code brings along because transformers' generate() would
    give other tokens; None where generate() gives the same. Not needed with ``moved_to``."""

    def __post_init__(self) -> None:
        one_of(f"The family of {self.name}", self.family, FAMILIES)

    @property
    def tab(self) -> str:
        """What its tab says."""
        return self.short or self.title

    def without(self, name: str) -> str:
        """Return the sentence about a sampling filter that this strategy has no parameter for."""
        drawn = self.generate_kwargs(self.config()).get("do_sample", False)
        why = "it draws in a way of its own" if drawn else "nothing is drawn at random"
        return f"{name} has no effect in {self.name}: {why}."
