"""Descriptions of the endpoints for programs, written from the strategies' declarations."""

from __future__ import annotations

from typing import Any

from engine.declare.params import Choice, Flag, Integer, Number, Param, defaults_of, params_of
from engine.declare.weights import weights_params
from engine.run.request import MAX_SEED
from engine.run.total_length import TOTAL_LENGTHS
from engine.strategies import STRATEGIES
from engine.strategies.base import STORY, Strategy
from engine.trace.json_io import to_dict
from playground.shell.endpoints import EndpointInput

TEXT, OBJECT = {"type": "string"}, {"type": "object", "additionalProperties": {}}
CALL_FIELDS = (
    "prompt",
    "model",
    "params",
    "seed",
    "assistant",
    "messages",
    "template",
    "image",
    "audio",
    "speech",
)
"""Inputs of a strategy's endpoint, in order. A call by position may end after the seed."""
_LEAST_VALUES = 4
TOOL_FIELDS: dict[str, tuple[str, ...]] = {
    "detect": ("text", "model", "params", "prompt"),
    "compare": ("prompt", "columns", "seeds", "model"),
    "dial_map": ("prompt", "dial", "low", "high", "model", "params", "seed"),
    "dial_grid": ("prompt", "dial", "low", "high", "second", "values", "model", "params", "seed"),
}
"""Inputs of the endpoints that are no strategy, in order."""
TOOL_REQUIRED = {"detect": 1, "compare": 2, "dial_map": 1, "dial_grid": 1}
"""How many of them a call must give."""
_RUN: dict[str, Any] = {
    "outputs": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "token_ids": {"type": "array", "items": {"type": "integer"}},
                "text": TEXT,
                "finish_reason": TEXT,
            },
        },
    },
    "metrics": OBJECT,
    "notes": {"type": "array", "items": TEXT},
}
RESULT_SCHEMA = {
    "type": "object",
    "properties": {
        **_RUN,
        "runs": {"type": "array", "items": {"type": "object", "properties": _RUN}},
    },
}


def call_fields(name: str) -> tuple[tuple[str, ...], int]:
    """Return the inputs of an endpoint and how many a call by position needs; none for no endpoint."""
    if name in TOOL_FIELDS:
        return TOOL_FIELDS[name], TOOL_REQUIRED[name]
    return (CALL_FIELDS, _LEAST_VALUES) if name in STRATEGIES else ((), 0)


def endpoint_description(strategy: Strategy) -> str:
    """Return the docstring of a strategy's endpoint, as Gradio and agents read it."""
    lines = "\n".join(f"    {name}: {text}" for name, text in _input_texts(strategy).items())
    return (
        f"Decode with {strategy.title}: continue a prompt and return the texts.\n\n"
        f"{strategy.summary}\n\nArgs:\n{lines}\n\nReturns:\n"
        "    outputs (text, token_ids and finish_reason of each), metrics and notes; "
        "a list of prompts returns these of each run in runs"
    )


def _input_texts(strategy: Strategy) -> dict[str, str]:
    return {
        "prompt": f'the text to continue, such as "{STORY}"; empty with messages, image or audio',
        "model": f"a name of the catalogue or of the hub, such as {strategy.default_model}",
        "params": "settings of the strategy by name; the schema has the range and default of each",
        "seed": "same seed, same text; 0 or more",
        "assistant": "the draft model of a strategy that drafts",
        "messages": 'a conversation in place of the prompt, such as [{"role": "user", "content": "Hi"}]',
        "template": "further values for the model's chat template",
        "image": "a picture in base64, or example:scene-1 for a built-in one",
        "audio": "a sound in base64, or example:NAME for a built-in one",
        "speech": "language and task of a speech model",
    }


def endpoint_inputs(strategy: Strategy) -> dict[str, EndpointInput]:
    """Return the inputs of a strategy's endpoint, in order."""
    kinds = (
        params_of(strategy.config) | TOTAL_LENGTHS | weights_params(strategy.assistant != "none")
    )
    defaults = defaults_of(strategy.config)
    properties = {name: param_schema(kind, defaults.get(name)) for name, kind in kinds.items()}
    length = {"max_new_tokens": defaults["max_new_tokens"]}
    schemas: dict[str, dict[str, Any]] = {
        "params": {"type": "object", "properties": properties},
        "seed": {"type": "integer", "minimum": 0, "maximum": MAX_SEED},
        "messages": {"type": "array", "items": OBJECT},
        "template": OBJECT,
        "speech": OBJECT,
    }
    values = {"model": strategy.default_model, "params": length, "seed": 0}
    examples = {"prompt": STORY, **values}
    return {
        name: EndpointInput(
            # Gradio shows the second one to people.
            {**schemas.get(name, TEXT), "description": text, "additional_description": text},
            examples.get(name),
            values.get(name),
        )
        for name, text in _input_texts(strategy).items()
    }


def param_schema(kind: Param, default: Any) -> dict[str, Any]:
    """Return the JSON schema of a parameter; null is valid where the parameter may be off."""
    about = {"description": f"{kind.label}. {kind.help} It must be {kind.describe_range()}."}
    if default is not None:
        about["default"] = to_dict(default)
    own = _value_schema(kind)
    return {**about, **({"oneOf": [{"type": "null"}, own]} if kind.optional and own else own)}


def _value_schema(kind: Param) -> dict[str, Any]:
    """Return the type and range of a value; empty for a list, which may be written in several ways."""
    match kind:
        case Flag():
            return {"type": "boolean"}
        case Integer():
            return {"type": "integer", "minimum": kind.minimum, "maximum": kind.maximum}
        case Number():
            low = "exclusiveMinimum" if kind.above_minimum else "minimum"
            high = "exclusiveMaximum" if kind.below_maximum else "maximum"
            return {"type": "number", low: kind.minimum, high: kind.maximum}
        case Choice() if all(isinstance(choice, str) for choice in kind.choices):
            return {"type": "string", "enum": list(kind.choices)}
        case _:
            return {}
