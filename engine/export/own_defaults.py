"""A model's own generation_config.json compared with the defaults of a strategy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import build_config, defaults_of
from engine.errors import EngineError, format_value
from engine.export.generation_config import (
    infer_strategy,
    model_defaults,
    non_default_params,
    parse_config,
)
from engine.messages import Message, join_messages
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy


@dataclass(frozen=True)
class OwnDefaults:
    """A model's own settings, read for one strategy.

    Attributes:
        strategy: the strategy for which the file was read.
        params: parameters that differ from the strategy's defaults, in normal form.
        defaults: default of each of these parameters.
        same: parameters that equal the strategy's defaults.
        left_out: field -> one sentence why the strategy does not use it.
    """

    strategy: str
    params: Mapping[str, Any]
    defaults: Mapping[str, Any]
    same: tuple[str, ...]
    left_out: Mapping[str, str]


def own_defaults(source: Source | None, strategy: str | None = None) -> OwnDefaults:
    """Return the settings in a model's own generation_config.json, read for a strategy.

    Special token ids are skipped, since every run takes them from the model. Runs use the other
    settings only on request.

    Args:
        source: where the model comes from; without local files the result is empty.
        strategy: one of STRATEGIES; None is the one that transformers would choose for the file.

    Raises:
        ConfigError: the file is damaged.
    """
    fields = model_defaults(source)
    declared = STRATEGIES[strategy or infer_strategy(fields)]
    params: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    # Field by field: one that this strategy cannot use must not make the others unusable.
    for field, value in fields.items():
        try:
            found = _params_of_field(declared, field, value)
            build_config(declared.config, {**params, **found}, declared.name)
        except EngineError as error:
            left_out[field] = str(error)
            continue
        params |= found
        if not found:
            reason = _left_out_reason(declared, field, value)
            left_out |= {field: reason} if reason else {}
    defaults = defaults_of(declared.config)
    differs = non_default_params(declared.name, params)
    return OwnDefaults(
        declared.name,
        differs,
        {name: defaults[name] for name in differs},
        tuple(name for name in params if name not in differs),
        left_out,
    )


def _params_of_field(strategy: Strategy, field: str, value: object) -> Mapping[str, Any]:
    """Return the parameters that one field sets, possibly none.

    Raises:
        EngineError: the strategy cannot use the field.
    """
    if _is_other_mode(strategy, field, value):
        return {}
    return parse_config(json.dumps({field: value}), strategy.name).params


def _left_out_reason(strategy: Strategy, field: str, value: object) -> str:
    """Return why a field sets no parameter; empty if it has no effect anyway."""
    if _is_other_mode(strategy, field, value):
        other = STRATEGIES[infer_strategy({field: value})]
        return Message(
            "{field} = {value} chooses {title}, which is another strategy.",
            field=field,
            value=format_value(value),
            title=other.title,
        )
    return join_messages(parse_config(json.dumps({field: value}), strategy.name).left_out)


def _is_other_mode(strategy: Strategy, field: str, value: object) -> bool:
    """Return whether a field selects another strategy and is no parameter of this one."""
    mode = strategy.generate_kwargs(strategy.config())
    if field in defaults_of(strategy.config) or mode.get(field) == value:
        return False
    other = infer_strategy({field: value})
    return other not in ("greedy", strategy.name)
