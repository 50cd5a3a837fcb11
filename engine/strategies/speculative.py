"""Speculative decoding: a draft model proposes tokens, the target model checks them in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from engine.declare.params import Choice, Flag, Integer, Text, param
from engine.errors import ModelError, ParameterError
from engine.loops.drafting.assistant import AssistantDrafter
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.confidence import CONFIDENCE_SCHEDULES, CONSTANT
from engine.loops.drafting.draft_tree import TreeShape, read_shape
from engine.loops.drafting.drafter import Drafter, RunContext
from engine.loops.drafting.line_comparison import compare_with_lines
from engine.loops.drafting.lossless_check import make_report_hook
from engine.loops.drafting.tree_drafter import TreeDrafter
from engine.loops.drafting.tree_forward import find_tree_obstacle
from engine.messages import Message
from engine.strategies.base import Context, Preset, Strategy
from engine.strategies.drafting_params import (
    EnsembleParams,
    check_same_tokenizer,
    drafting_generate_kwargs,
    make_bundled_loop_chooser,
)

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

MAX_TREE_NODES = 64
"""Most guesses in a draft tree: the main model reads all of them in every pass."""
_OBSTACLES: WeakKeyDictionary[LoadedModel, str] = WeakKeyDictionary()
"""Why a model cannot read a draft tree, "" if it can; measured on first use."""


@dataclass(frozen=True, kw_only=True)
class SpeculativeConfig(EnsembleParams):
    """Parameters of drafting by a model with the target's tokenizer."""

    assistant_confidence_schedule: str = param(
        Choice(
            label="Confidence schedule",
            group="advanced",
            choices=CONFIDENCE_SCHEDULES,
            help=(
                "adaptive: after every round the threshold becomes the one that would have cost "
                "the fewest passes so far. transformers does so wherever scikit-learn is installed."
            ),
        ),
        CONSTANT,
    )
    draft_tree: bool = param(
        Flag(
            label="Draft tree",
            help=(
                "Guess several continuations at once, as a tree, which the main model reads in one "
                "pass."
            ),
            papers=("2406.16858",),
        ),
        False,
    )
    draft_tree_depth: int = param(
        Integer(
            label="Tree depth",
            group="advanced",
            minimum=1,
            maximum=16,
            help="Most guesses in a row; each level of the tree takes a pass of the draft model.",
        ),
        6,
    )
    draft_tree_top_k: int = param(
        Integer(
            label="Tree top k",
            group="advanced",
            minimum=1,
            maximum=10,
            help="Guesses after each guess, and guesses of a level that are continued.",
        ),
        3,
    )
    draft_tree_nodes: int = param(
        Integer(
            label="Tree size",
            group="advanced",
            minimum=1,
            maximum=MAX_TREE_NODES,
            help="Of all guesses, the most probable stay, up to this number.",
        ),
        12,
    )
    draft_tree_widths: str | None = param(
        Text(
            label="Fixed tree",
            group="advanced",
            optional=True,
            maximum_length=40,
            help=(
                "Guesses after each guess, level by level, such as 2, 2, 1, 1. Empty lets the draft "
                "model's probabilities shape the tree."
            ),
        ),
        None,
    )

    def check(self) -> None:
        super().check()
        if self.draft_tree and self.assistant_ensemble_weight is not None:
            raise ParameterError(
                "assistant_ensemble_weight",
                self.assistant_ensemble_weight,
                "a draft tree is checked by the main model alone, so it must be off with draft_tree",
            )
        try:
            size = self.shape.size
        except ValueError:
            size = 0
        if not 1 <= size <= MAX_TREE_NODES:
            raise ParameterError(
                "draft_tree_widths",
                self.draft_tree_widths,
                Message(
                    "it must be whole numbers from 1, such as 2, 2, 1, 1, that make a tree of at most "
                    "{n} guesses",
                    n=MAX_TREE_NODES,
                ),
            )

    @property
    def shape(self) -> TreeShape:
        """The shape of the draft trees."""
        sizes = self.draft_tree_depth, self.draft_tree_top_k, self.draft_tree_nodes
        return read_shape(*sizes, self.draft_tree_widths)


def prepare(context: Context) -> dict[str, Any]:
    """Return the drafter that uses the draft model.

    Raises:
        ModelError: the tokenizers of both models differ, or one of them cannot read a draft tree.
    """
    check_same_tokenizer(context.target, context.assistant)
    config, model = context.config, context.assistant.model
    if config.draft_tree:
        for loaded in (context.target, context.assistant):
            check_reads_trees(loaded)

    def make(run: RunContext) -> Drafter:
        if config.draft_tree:
            return TreeDrafter(run, model, config.shape)
        return AssistantDrafter(run, model, confidence=config.assistant_confidence_schedule)

    after = make_report_hook(config, make)
    if config.draft_tree and config.plain_run:
        after = compare_with_lines(after, model, sorted({config.shape.depth, config.shape.size}))
    return {"make_drafter": make, "after": after}


def check_reads_trees(loaded: LoadedModel) -> None:
    """Check that a model can read a draft tree; the first time, the caller must have its turn.

    Raises:
        ModelError: it cannot; the message says why.
    """
    if loaded not in _OBSTACLES:
        _OBSTACLES[loaded] = find_tree_obstacle(loaded.model)
    if why := _OBSTACLES[loaded]:
        raise ModelError(
            "draft_tree = true: {name} cannot read a tree, as {why}.", name=loaded.name, why=why
        )


STRATEGY = Strategy(
    name="speculative",
    title="Speculative decoding",
    short="Speculative",
    plain_name="Small model",
    group="faster",
    summary=(
        "A small draft model guesses several tokens, and the main model checks them in one "
        "pass. The text is exactly the main model's own, but needs fewer of its slow "
        "passes."
    ),
    helps=(
        "It helps when a small model often agrees with a slow main model. In “A draft that "
        "is usually right” each pass of the main model yields "
        "{speculative-1.tokens_per_forward} tokens, in “A hard prompt” "
        "{speculative-2.tokens_per_forward}. It hurts only speed, when most guesses are "
        "rejected. With sampling, the distribution stays exactly the main model's own."
    ),
    turns=(
        "Draft tokens is how many tokens are guessed before the main model checks them. "
        "More pay off while they are accepted; after the first wrong one the rest is lost. A draft "
        "tree has several guesses for each place, so that a wrong one loses less."
    ),
    paper="Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318",
    config=SpeculativeConfig,
    dials=("num_assistant_tokens",),
    loop=assisted_loop,
    own_loop=make_bundled_loop_chooser("speculative"),
    generate_kwargs=drafting_generate_kwargs,
    prepare=prepare,
    needs=("decoder_only", "rewind"),
    draft_needs=("decoder_only",),
    presets=(
        Preset(
            "A draft that is usually right",
            "A brave little mouse lived under the old tree. One morning",
            {
                "max_new_tokens": 80,
                "num_assistant_tokens": 6,
                "plain_run": True,
                "assistant_confidence_threshold": 0.0,
            },
            "Most guesses are accepted, so every pass of the main model yields several tokens.",
            look_at=3,
        ),
        Preset(
            "A hard prompt",
            "The committee of seven astronomers voted to",
            {
                "max_new_tokens": 60,
                "num_assistant_tokens": 6,
                "plain_run": True,
                "assistant_confidence_threshold": 0.0,
            },
            "On unfamiliar text the draft model guesses badly, so little is saved.",
            look_at=8,
        ),
        Preset(
            "The draft adapts",
            "A brave little mouse lived under the old tree. One morning",
            {
                "max_new_tokens": 80,
                "num_assistant_tokens": 4,
                "num_assistant_tokens_schedule": "heuristic",
                "assistant_confidence_threshold": 0.0,
            },
            "The draft gets longer when it guesses right and shorter when it doesn't.",
            look_at=12,
        ),
        Preset(
            "Sampling, and is it the same?",
            "The little bear opened the door and saw",
            {
                "max_new_tokens": 50,
                "do_sample": True,
                "top_k": 0,
                "num_assistant_tokens": 5,
                "assistant_confidence_threshold": 0.0,
                "distribution_runs": 200,
            },
            "A guess is kept if its random number is at most p / q. Then 200 short runs check "
            "the distribution.",
            look_at=3,
        ),
        Preset(
            "Several guesses for a place",
            "The little bear opened the door and saw",
            {"max_new_tokens": 60, "draft_tree": True, "plain_run": True},
            "Where the first guess is wrong, the second may be right. Drafts in a line are run, too: "
            "one as deep as the tree needs more passes, one with as many guesses needs fewer.",
            look_at=6,
        ),
    ),
    visuals=("draft_round", "draft_timeline", "candidates", "xray", "formula", "draw"),
    assistant="same_tokenizer",
    default_assistant="storyteller-draft",
)
