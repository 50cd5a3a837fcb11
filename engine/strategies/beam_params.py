"""Parameters, views and checks shared by the beam search strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.declare.params import Choice, Integer, Number, param
from engine.errors import ParameterError
from engine.messages import Message
from engine.settings import SETTINGS
from engine.strategies.base import Context
from engine.strategies.shared_params import NextTokenParams

VISUALS = ("beam_tree", "beam_rescore", "candidates", "xray", "formula", "draw")


def declare_num_beams(minimum: int) -> Any:
    """Declare the parameter ``num_beams`` with a lower bound."""
    return param(
        Integer(
            label="Beams",
            plain_label="Texts kept",
            help="How many texts the search keeps at every step.",
            minimum=minimum,
            maximum=SETTINGS.max_beams,
        ),
        4,
    )


def check_vocabulary_size(context: Context) -> None:
    """Check that the vocabulary is large enough for the candidate pool of a step.

    Raises:
        ParameterError: the vocabulary is too small; the message names the minimum.
    """
    # transformers keeps max(2, 1 + end tokens) candidates a beam, so that one can continue.
    eos = context.config.eos_token_id or context.target.eos_token_ids
    least, have = max(2, 1 + len(eos)), context.target.vocab_size
    if have < least:
        raise ParameterError(
            "num_beams",
            context.config.num_beams,
            Message(
                "beams with {n} end tokens need a vocabulary of at least {least} tokens, and "
                "{model} has {have}",
                n=len(eos),
                least=least,
                model=context.target.name,
                have=have,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class BeamParams(NextTokenParams):
    """Beam count, ranking of finished hypotheses, and the stopping rule."""

    num_beams: int = declare_num_beams(2)
    length_penalty: float = param(
        Number(
            label="Length penalty",
            help="Above 0 favours long texts, below 0 short ones: a score is sum / length ** this.",
            minimum=-2,
            maximum=5,
            step=0.1,
        ),
        1.0,
    )
    early_stopping: bool | str = param(
        Choice(
            label="Early stopping",
            help=(
                "When to stop: “true” at as many finished texts as beams, “false” when a better "
                "one is unlikely, “never” when it is impossible."
            ),
            choices=(False, True, "never"),
        ),
        False,
    )

    def check(self) -> None:
        super().check()
        if self.num_return_sequences > self.num_beams:
            raise ParameterError(
                "num_return_sequences",
                self.num_return_sequences,
                Message(
                    "a search returns at most its num_beams = {beams} hypotheses",
                    beams=self.num_beams,
                ),
            )
        if self.guidance_scale not in (None, 1.0):
            raise ParameterError(
                "guidance_scale",
                self.guidance_scale,
                "guidance follows one history and beams have several, so it must be off",
                "sampling and greedy accept it",
            )
