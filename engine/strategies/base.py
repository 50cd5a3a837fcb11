"""The strategy declaration.

Tab, validation, CLI, API, exported code and documentation are generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.declare.bundled_loop import ChooseLoop, needs_no_loop
from engine.declare.groups import STRATEGY_GROUPS, require_one_of
from engine.declare.params import params_of
from engine.loops.recorder import Recorder
from engine.messages import Message

STORY = "Once upon a time, there was a little frog who"
"""A prompt that the embedded model continues in many ways; it has memorised some others."""


@dataclass(frozen=True)
class Preset:
    """A named starting point whose effect a test measures."""

    name: str
    prompt: str
    params: Mapping[str, Any]
    shows: str
    """One sentence: what to look at."""
    look_at: int = 1
    """Step at which the recorded run opens, counted from 1."""
    seed: int = 0
    model: str | None = None
    """Model name; None is the strategy's default model."""
    image: str | None = None
    """Picture input of an image model, as ``example:NAME``; the prompt may then be empty."""
    audio: str | None = None
    """Audio input of a speech model, as ``example:NAME``."""


@dataclass(frozen=True)
class Context:
    """The inputs of ``Strategy.prepare``: config, models, prompt and recorder of one run."""

    config: Any
    """The strategy's own config dataclass, already validated."""
    target: Any
    """The target model, a models.LoadedModel."""
    assistant: Any
    """The draft model, a models.LoadedModel, or None."""
    prompt_ids: torch.Tensor
    """Prompt token ids, shape (1, length)."""
    recorder: Recorder
    generator: torch.Generator
    """On the model's device, seeded with the request's seed."""


def no_loop_kwargs(context: Context) -> dict[str, Any]:
    """Return no extra keyword arguments: most loops need only what generate() prepares."""
    del context
    return {}


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One decoding strategy, declared in one file.

    Raises:
        ValueError: the group is unknown.
    """

    name: str
    """Stable name in the CLI, the API, traces and links."""
    title: str
    group: str
    """Key of declare.groups.STRATEGY_GROUPS; the page groups strategies by it."""
    summary: str
    """One paragraph for readers who do not know the paper."""
    helps: str
    """When it helps and when it hurts.

    ``{strategy-1.figure}`` quotes a figure of a recorded run, see engine/analysis/first_visit.py.
    """
    turns: str
    """The effect of its main parameter."""
    paper: str
    """Authors, year and arXiv id."""
    config: type
    """Frozen dataclass whose fields are Params."""
    loop: Callable[..., Any] | None
    """Generator of Steps, see loops/; None if a custom method decides, see run/sandboxed_run.py."""
    generate_kwargs: Callable[[Any], dict[str, Any]]
    """config -> generate() arguments that select this mode: do_sample, num_beams, …"""
    prepare: Callable[[Context], dict[str, Any]] = no_loop_kwargs
    """Context -> extra keyword arguments of the loop (a drafter, a watermark tally)."""
    presets: tuple[Preset, ...] = ()
    short: str = ""
    """Short title for narrow places; empty if the title is short enough."""
    plain_name: str = ""
    """What it does in everyday words, for readers without the field's term; empty if ``tab`` is plain."""
    dials: tuple[str, ...] = ()
    """Its own parameters, at most three, the most telling first; the page shows them at the prompt."""
    visuals: tuple[str, ...] = ()
    """Names of the views in the tab besides the token strip: keys of visualizers.VISUALS."""
    assistant: str = "none"
    """Kind of draft model: none, same_tokenizer or any_tokenizer."""
    moved_to: str | None = None
    """Hub repository that transformers moved the mode to; None if it is still in transformers."""
    default_model: str = "storyteller"
    default_assistant: str | None = None
    needs: tuple[str, ...] = ()
    """Capabilities that the model must have: keys of strategies.compatibility.REQUIREMENTS."""
    draft_needs: tuple[str, ...] = ()
    """Capabilities that the draft model must have."""
    reorders: bool = False
    """The loop reorders cache rows; a model whose cache cannot be reordered runs without one."""
    one_shape: bool = False
    """Every pass but the first has the shape (rows, 1), so that a GPU can replay a CUDA graph."""
    shares: bool = False
    """It needs only the logits after the newest token, so runs can share its passes."""
    one_by_one: bool = False
    """Run num_return_sequences one at a time, because their rows would influence each other."""
    own_loop: ChooseLoop = needs_no_loop
    """(config, positions left) -> the loop that exported code includes because generate() would give other tokens.

    None if generate() gives the same tokens. Not needed with ``moved_to``.
    """

    no_code: str = ""
    """Why a run cannot be written as code, without its full stop; empty if it can."""

    def __post_init__(self) -> None:
        require_one_of(f"The group of {self.name}", self.group, STRATEGY_GROUPS)
        for dial in self.dials:
            require_one_of(f"A dial of {self.name}", dial, params_of(self.config))

    @property
    def tab(self) -> str:
        """The title of its tab."""
        return self.short or self.title

    def describe_missing_filter(self, name: str) -> str:
        """Return one sentence on why the sampling filter ``name`` has no effect here."""
        drawn = self.generate_kwargs(self.config()).get("do_sample", False)
        template = (
            "{name} has no effect in {strategy}: it draws in its own way."
            if drawn
            else "{name} has no effect in {strategy}: nothing is drawn at random."
        )
        return Message(template, name=name, strategy=self.name)
