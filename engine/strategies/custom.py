"""Custom generation methods: decoding by code from outside the playground."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import Flag, Integer, Number, Param, param
from engine.messages import Message
from engine.settings import SETTINGS
from engine.strategies.base import STORY, Preset, Strategy
from engine.strategies.shared_params import (
    NextTokenParams,
    SamplingParams,
    refuse_last_filters,
)

MAX_ARGUMENT_CHARS = 8000


@dataclass(frozen=True, kw_only=True)
class MethodName(Param):
    """A method name, or in Python a function as ``generate(custom_generate=...)`` takes."""

    def describe_range(self) -> str:
        return (
            "the name of a built-in method, a repository of the hub such as owner/name or "
            "owner/name@commit, or a folder with custom_generate/generate.py"
        )

    def parse(self, value: object) -> str | Callable[..., Any]:
        if callable(value):
            return value
        if not isinstance(value, str):
            raise TypeError
        if not 1 <= len(value.strip()) <= 500 or not value.isprintable():
            raise ValueError
        return value.strip()


@dataclass(frozen=True, kw_only=True)
class MethodArguments(Param):
    """The method's own arguments; the method declares their names and types."""

    def describe_range(self) -> str:
        return Message(
            "an object of the method's own arguments and their values, up to {n} "
            "characters as JSON",
            n=MAX_ARGUMENT_CHARS,
        )

    def parse(self, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        # Exported code uses them as Python names.
        if not all(isinstance(name, str) and name.isidentifier() for name in value):
            raise ValueError
        try:
            text = json.dumps(dict(value), allow_nan=False)
        except RecursionError:  # callers handle only TypeError and ValueError
            raise ValueError from None
        if len(text) > MAX_ARGUMENT_CHARS:
            raise ValueError
        # A round trip through JSON leaves plain values only.
        return json.loads(text)


@dataclass(frozen=True, kw_only=True)
class CustomConfig(SamplingParams, NextTokenParams):
    """The method and its settings, all of which reach its generation_config."""

    method: str | Callable[..., Any] = param(
        MethodName(
            label="Method",
            help=(
                "A built-in method, a repository of the hub, or a folder with "
                "custom_generate/generate.py."
            ),
        ),
        "mirostat",
    )
    arguments: dict[str, Any] | None = param(
        MethodArguments(
            label="Its arguments",
            help='The method\'s own settings, such as {"tau": 2.0}. The others keep their defaults.',
            optional=True,
        ),
        None,
    )
    do_sample: bool = param(
        Flag(
            label="Sample",
            help="Pass the sampling filters to the method. Whether it draws is up to the method.",
        ),
        False,  # as of generate(custom_generate=...)
    )
    num_beams: int = param(
        Integer(
            label="Beams",
            help="For methods that search: how many texts they keep at every step.",
            group="advanced",
            minimum=1,
            maximum=SETTINGS.max_beams,
        ),
        1,
    )
    length_penalty: float = param(
        Number(
            label="Length penalty",
            help="For methods that search: above 0 favours long texts, below 0 short ones.",
            group="advanced",
            minimum=-2,
            maximum=5,
            step=0.1,
        ),
        1.0,
    )

    def check(self) -> None:
        super().check()
        if self.do_sample:
            refuse_last_filters(
                self, Message("a custom method draws by itself, which this filter cannot follow")
            )


STRATEGY = Strategy(
    name="custom",
    title="Custom methods",
    short="Custom",
    group="custom",
    summary=(
        "Decode with a method from elsewhere: built in, from the hub, or from a folder of "
        "yours. It runs sandboxed, with access to the model only, and every model call is "
        "recorded."
    ),
    helps=(
        "Use it to try a method from a paper, or your own. Limit: you see what the method "
        "does, not why, unless it reports its reasons."
    ),
    turns=("Each method brings its own settings; they appear below its name."),
    paper="the documentation of transformers: custom generation methods; every method names its own paper",
    config=CustomConfig,
    dials=("method", "arguments"),
    loop=None,
    generate_kwargs=lambda config: {"do_sample": config.do_sample, "num_beams": config.num_beams},
    presets=(
        Preset(
            "Back out of a loop",
            "She ran and ran and",
            {
                "max_new_tokens": 40,
                "method": "rollback_when_stuck",
                "arguments": {"ngram": 3},
                "do_sample": False,
            },
            "When three tokens repeat, the method backs up and tries something else.",
            look_at=19,
        ),
        Preset(
            "Surprise kept level",
            "One two three one two",
            {
                "max_new_tokens": 60,
                "method": "mirostat",
                "arguments": {"tau": 2.0, "eta": 0.3},
                "do_sample": True,
                "top_k": 0,
            },
            "The draw leaves out tokens that would surprise too much. The limit moves so that "
            "tokens carry two bits of surprise on average.",
            look_at=5,
        ),
        Preset(
            "Hot and yet careful",
            STORY,
            {
                "max_new_tokens": 40,
                "method": "top_n_sigma",
                "arguments": {"n": 1.0},
                "do_sample": True,
                "temperature": 5.0,
                "top_k": 0,
            },
            "This filter ignores the temperature: even at 5 nothing improbable gets through.",
            look_at=3,
        ),
        Preset(
            "Looking ahead when unsure",
            "The cat sat on the",
            {"max_new_tokens": 24, "method": "continue_when_uncertain", "do_sample": False},
            "When the model is unsure (entropy above 2 nats), the method tries three tokens "
            "four tokens ahead. That takes more passes than tokens.",
            look_at=3,
        ),
        Preset(
            "Against an amateur",
            "In the dark forest",
            {"max_new_tokens": 40, "method": "contrastive_decoding", "do_sample": False},
            "The method takes tokens that the model likes much more than an amateur, who sees "
            "one word of the prompt. One pass reads both.",
            look_at=18,
        ),
        Preset(
            "The draw most like the others",
            STORY,
            {
                "max_new_tokens": 30,
                "method": "min_bayes_risk",
                "arguments": {"num_samples": 8},
                "do_sample": True,
            },
            "Eight texts are drawn at once; the one that shares most with the others is kept.",
            look_at=8,
        ),
    ),
    visuals=("forward_timeline", "candidates", "xray", "chart"),
)
