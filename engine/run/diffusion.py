"""Runs of masked diffusion: a text with hidden places, filled in any order and recorded."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from engine.declare.params import Choice, Integer, Number, build_config, param
from engine.errors import ParameterError
from engine.loops.diffusion import (
    ENTROPY_BOUND,
    LOW_CONFIDENCE,
    REMASKING,
    DiffusionRule,
    Pass,
    fill_places,
)
from engine.messages import Message
from engine.models.diffusion_model import NAME, DiffusionModel, load_diffusion_model
from engine.models.text import Pieces
from engine.trace.diffusion import DiffusionStep, DiffusionTrace, Guess
from engine.trace.records import ModelInfo

MAX_HIDDEN = 256
_HOLE = re.compile(r"\{(\d+)\}")


@dataclass(frozen=True, kw_only=True)
class DiffusionConfig:
    """Parameters of masked diffusion."""

    max_new_tokens: int = param(
        Integer(
            label="New tokens",
            minimum=1,
            maximum=MAX_HIDDEN,
            help="Hidden places after the prompt, if the prompt has none of its own.",
        ),
        38,
    )
    steps: int = param(
        Integer(
            label="Steps",
            minimum=1,
            maximum=MAX_HIDDEN,
            help="Forward passes that fill the whole text; with an entropy bound, the most.",
        ),
        16,
    )
    block_length: int = param(
        Integer(
            label="Block length",
            minimum=0,
            maximum=MAX_HIDDEN,
            help="Places that are filled before the next ones, from left to right; 0 is all at once.",
        ),
        0,
    )
    remasking: str = param(
        Choice(
            label="Stay hidden",
            choices=REMASKING,
            help=(
                "Which guesses stay hidden after a step: the least certain, any, or all that would "
                "leave more open than the entropy bound."
            ),
        ),
        LOW_CONFIDENCE,
    )
    entropy_bound: float = param(
        Number(
            label="Entropy bound",
            minimum=0,
            maximum=100,
            help=f"With remasking {ENTROPY_BOUND}: nats that the places of a step may leave open.",
        ),
        0.5,
    )
    temperature: float = param(
        Number(
            label="Temperature",
            minimum=0,
            maximum=10,
            help="Of the draw of every guess; 0 takes the most probable token.",
        ),
        0.0,
    )

    def check(self) -> None:
        """Accept every combination: each value is checked alone."""


def fill_text(
    prompt: str, params: dict[str, Any] | None = None, seed: int = 0
) -> Iterator[DiffusionStep | DiffusionTrace]:
    """Fill the hidden places of a text with the embedded masked diffusion model.

    Args:
        prompt: a text in which ``{n}`` hides n tokens. Without one, the text is continued by
            ``max_new_tokens``.
        params: of DiffusionConfig.
        seed: of everything that is drawn.

    Yields:
        Every step as it is made, then the whole record.

    Raises:
        ParameterError: the prompt or a parameter is not allowed, or there are fewer steps than blocks.
        ModelError: the model's files are damaged.
    """
    config: DiffusionConfig = build_config(DiffusionConfig, params or {}, "masked_diffusion")
    loaded = load_diffusion_model()
    given = _encode_prompt(loaded, prompt, config.max_new_tokens)
    _check_steps(config, given.count(loaded.mask_id))
    ids, steps, started = torch.tensor(given), [], time.perf_counter()
    rule = DiffusionRule(
        config.steps,
        config.block_length,
        config.remasking,
        config.entropy_bound,
        config.temperature,
    )
    generator = torch.Generator().manual_seed(seed)
    for made in fill_places(loaded.logits, ids, loaded.mask_id, rule, generator):
        steps.append(_to_step(made, time.perf_counter() - started))
        yield steps[-1]
    yield _to_trace(loaded, config, seed, given, steps, ids.tolist())


def record_filling(
    prompt: str, params: dict[str, Any] | None = None, seed: int = 0
) -> DiffusionTrace:
    """Return the whole record of ``fill_text``, with its arguments and errors."""
    return next(
        made for made in fill_text(prompt, params, seed) if isinstance(made, DiffusionTrace)
    )


def _encode_prompt(loaded: DiffusionModel, prompt: str, new: int) -> list[int]:
    """Return the ids of a prompt, the mask's at every hidden place."""
    text = prompt if _HOLE.search(prompt) else f"{prompt}{{{new}}}"
    ids: list[int] = []
    # Split at a pattern with one group: text and numbers alternate, and text comes first.
    parts = _HOLE.split(text)
    for number, part in enumerate(parts):
        if number % 2:
            ids += [loaded.mask_id] * int(part)
            continue
        # A token begins with its space, so the space before a hole belongs to what is hidden.
        shown = part if number + 1 == len(parts) else part.removesuffix(" ")
        if shown:
            ids += loaded.tokenizer(shown, add_special_tokens=False)["input_ids"]
    hidden = ids.count(loaded.mask_id)
    if not 1 <= hidden <= MAX_HIDDEN or len(ids) > loaded.max_length:
        raise ParameterError(
            "prompt",
            prompt,
            Message(
                "it must hide 1 to {n} tokens, in a text of at most {most}",
                n=MAX_HIDDEN,
                most=loaded.max_length,
            ),
        )
    return ids


def _check_steps(config: DiffusionConfig, hidden: int) -> None:
    blocks = math.ceil(hidden / (config.block_length or hidden))
    if config.steps < blocks:
        raise ParameterError(
            "steps",
            config.steps,
            Message(
                "it must be at least {n}, one for every block of {length} places",
                n=blocks,
                length=config.block_length,
            ),
        )


def _to_step(made: Pass, elapsed_s: float) -> DiffusionStep:
    columns = (made.places, made.tokens, made.probs, made.entropies, made.committed)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return DiffusionStep(made.block, tuple(Guess(*row) for row in rows), elapsed_s)


def _to_trace(
    loaded: DiffusionModel,
    config: DiffusionConfig,
    seed: int,
    given: list[int],
    steps: list[DiffusionStep],
    ids: list[int],
) -> DiffusionTrace:
    named = {one for one in given if one != loaded.mask_id}
    named |= {guess.token_id for step in steps for guess in step.guesses}
    pieces = Pieces(loaded.tokenizer)
    settings = loaded.model.config
    return DiffusionTrace(
        model=ModelInfo(NAME, vocab_size=loaded.mask_id, layers=int(settings.num_hidden_layers)),
        seed=seed,
        config=asdict(config),
        given_ids=tuple(None if one == loaded.mask_id else one for one in given),
        pieces=pieces.of(sorted(named)),
        steps=tuple(steps),
        text=loaded.tokenizer.decode(ids),
    )
