"""Masked diffusion: a second model fills the hidden places of a text in any order."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from engine.declare.params import Choice, Integer, Number, Text, defaults_of, param
from engine.errors import ParameterError
from engine.loops.diffusion import ENTROPY_BOUND, LOW_CONFIDENCE, RANDOM, REMASKING, DiffusionRule
from engine.loops.filling import Filling, masked_diffusion_loop
from engine.messages import Message
from engine.models.diffusion_model import DiffusionModel, load_diffusion_model
from engine.models.text import tokenize_text
from engine.settings import SETTINGS
from engine.strategies.base import STORY, Context, Preset, Strategy
from engine.strategies.shared_params import NextTokenParams

MAX_HIDDEN = 256
_HOLE = re.compile(r"\{(\d{1,5})\}")
_LEFT_TO_RIGHT = defaults_of(NextTokenParams)


@dataclass(frozen=True, kw_only=True)
class MaskedDiffusionConfig:
    """What is hidden, and in which order it is filled."""

    max_new_tokens: int = param(
        Integer(
            label="New tokens",
            help="How many hidden tokens follow the prompt, if no text after it is given.",
            minimum=1,
            maximum=min(MAX_HIDDEN, SETTINGS.max_new_tokens),
        ),
        38,
    )
    steps: int = param(
        Integer(
            label="Steps",
            help=(
                "How many passes fill the whole text. Fewer passes write more words at once, "
                "without seeing each other."
            ),
            minimum=1,
            maximum=MAX_HIDDEN,
            slider_maximum=64,
        ),
        16,
    )
    remasking: str = param(
        Choice(
            label="Order",
            help=(
                "Which words a pass writes: the most certain, any, or as many as the entropy "
                "bound allows."
            ),
            choices=REMASKING,
        ),
        LOW_CONFIDENCE,
    )
    infill: str | None = param(
        Text(
            label="Text after the prompt",
            help=(
                "Words that stay, and {n} for n hidden tokens: “{4} home.” hides four before "
                "“home.”. Off hides as many as New tokens says."
            ),
            maximum_length=2000,
            optional=True,
        ),
        None,
    )
    block_length: int = param(
        Integer(
            label="Block length",
            help="How many hidden places are filled before the next ones; 0 is all at once.",
            minimum=0,
            maximum=MAX_HIDDEN,
            slider_maximum=64,
        ),
        0,
    )
    entropy_bound: float = param(
        Number(
            label="Entropy bound",
            help="How uncertain the words of one pass may be together, in nats.",
            minimum=0,
            maximum=100,
            slider_maximum=5,
            step=0.1,
        ),
        0.5,
    )
    temperature: float = param(
        Number(
            label="Temperature",
            help="Of the draw of every word; 0 takes the most probable one.",
            minimum=0,
            maximum=10,
            slider_maximum=2,
            step=0.05,
        ),
        0.0,
    )

    def __getattr__(self, name: str) -> Any:
        """Return the default of a setting that only texts from left to right have."""
        try:
            return _LEFT_TO_RIGHT[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def hidden(self) -> int:
        """How many places are hidden."""
        if self.infill is None:
            return self.max_new_tokens
        return sum(int(n) for n in _HOLE.findall(self.infill))

    def check(self) -> None:
        """Check the number of hidden places, and that every block gets a pass.

        Raises:
            ParameterError: one of them is not allowed.
        """
        if not 1 <= self.hidden <= MAX_HIDDEN:
            allowed = Message(
                "it must hide 1 to {n} tokens, as {example} hides four", n=MAX_HIDDEN, example="{4}"
            )
            raise ParameterError("infill", self.infill, allowed)
        blocks = math.ceil(self.hidden / (self.block_length or self.hidden))
        if self.steps < blocks:
            allowed = Message(
                "it must be at least {n}, one for every block of {length} places",
                n=blocks,
                length=self.block_length,
            )
            raise ParameterError("steps", self.steps, allowed)


def split_prompt(text: str) -> tuple[str, str | None]:
    """Return the prompt of a text with hidden places, and the text after the prompt.

    Args:
        text: ``{n}`` hides n tokens; without one, there is no text after the prompt.
    """
    hole = _HOLE.search(text)
    if hole is None:
        return text, None
    # A token begins with its space, so the space before a hole belongs to what is hidden.
    return text[: hole.start()].removesuffix(" "), text[hole.start() :]


def _read_infill(loaded: DiffusionModel, infill: str) -> tuple[int | None, ...]:
    """Return the ids of a text, None at every hidden place."""
    ids: list[int | None] = []
    # Split at a pattern with one group: text and numbers alternate, and text comes first.
    parts = _HOLE.split(infill)
    for number, part in enumerate(parts):
        if number % 2:
            ids += [None] * int(part)
            continue
        shown = part if number + 1 == len(parts) else part.removesuffix(" ")
        options = {"add_special_tokens": False, "split_special_tokens": True}
        ids += tokenize_text(loaded.tokenizer, shown, **options)["input_ids"] if shown else []
    return tuple(ids)


def prepare(context: Context) -> dict[str, Any]:
    """Return what is filled.

    Raises:
        ModelError: the files of the diffusion model are damaged.
        ParameterError: prompt and text are longer than the diffusion model reads.
    """
    config, loaded = context.config, load_diffusion_model()
    hidden = (None,) * config.max_new_tokens
    given = hidden if config.infill is None else _read_infill(loaded, config.infill)
    room = loaded.max_length - context.prompt_ids.shape[1]
    if len(given) > room:
        allowed = Message(
            "{room} tokens fit after the prompt, and it has {n}", room=room, n=len(given)
        )
        raise ParameterError("infill", config.infill, allowed)
    rule = DiffusionRule(
        config.steps,
        config.block_length,
        config.remasking,
        config.entropy_bound,
        config.temperature,
    )
    return {"filling": Filling(loaded, given, rule)}


def generate_kwargs(config: Any) -> dict[str, Any]:
    """Return the mode of generate() that builds no filter: every guess is drawn in its own way."""
    del config
    return {"do_sample": True, "num_beams": 1, "temperature": 1.0, "top_k": 0}


STRATEGY = Strategy(
    name="masked_diffusion",
    title="Masked diffusion",
    short="Diffusion",
    plain_name="Any order",
    group="any_order",
    summary=(
        "All new words are hidden at first. In every pass a model that sees both directions "
        "guesses all of them at once, and the most certain guesses are written. The others stay "
        "hidden and are guessed again."
    ),
    helps=(
        "It helps to fill a gap in the middle of a text, and to write in fewer passes than words: "
        "“Sixteen passes” yields {masked_diffusion-1.tokens_per_forward} tokens in each. It hurts "
        "with few passes: words that are written together do not see each other, so they are "
        "doubled or missing."
    ),
    turns=(
        "Steps is the number of passes. With as many as words, each sees all written before it; "
        "with few, the text breaks."
    ),
    paper="Nie et al. 2025, arXiv 2502.09992; Ben-Hamu et al. 2025, arXiv 2505.24857",
    config=MaskedDiffusionConfig,
    dials=("steps", "remasking", "infill"),
    loop=masked_diffusion_loop,
    generate_kwargs=generate_kwargs,
    prepare=prepare,
    no_code="its second model is stored at 8 bits a number, which transformers does not read",
    needs=("decoder_only", "fills"),
    presets=(
        Preset(
            "Sixteen passes",
            "Tom and Lily were friends. They",
            {"max_new_tokens": 38, "steps": 16},
            "The words come in any order, the most certain first. The number under a word is its pass.",
            look_at=4,
        ),
        Preset(
            "A word that must come",
            "The little dog",
            {"max_new_tokens": 38, "infill": "{8} umbrella {10} rain.", "steps": 18},
            "Two words are given. The model sees them from the start and writes towards them.",
            look_at=4,
        ),
        Preset(
            "Too few passes",
            STORY,
            {"max_new_tokens": 38, "steps": 4},
            "Neighbours are written in one pass, without seeing each other: words are doubled or missing.",
            look_at=2,
        ),
        Preset(
            "A random order",
            STORY,
            {"max_new_tokens": 38, "steps": 16, "remasking": RANDOM, "temperature": 0.7},
            "The words of a pass are picked at random, so uncertain ones are written early.",
            look_at=2,
        ),
        Preset(
            "As many as are certain",
            STORY,
            {
                "max_new_tokens": 38,
                "steps": 38,
                "remasking": ENTROPY_BOUND,
                "entropy_bound": 1.0,
            },
            "A pass writes as many words as stay under the entropy bound: few at first, many later.",
            look_at=6,
        ),
    ),
    visuals=("filling", "filling_compared"),
)
