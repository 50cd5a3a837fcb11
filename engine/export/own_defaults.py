"""A model's own generation_config.json compared with the defaults of a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import defaults_of
from engine.export.generation_config import (
    infer_strategy,
    model_defaults,
    non_default_params,
)
from engine.export.settings_text import read_fields
from engine.sources.source import Source
from engine.strategies import STRATEGIES


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
    # Field by field: one that this strategy cannot use must not make the others unusable.
    read = read_fields(fields, declared)
    defaults = defaults_of(declared.config)
    differs = non_default_params(declared.name, read.params)
    return OwnDefaults(
        declared.name,
        differs,
        {name: defaults[name] for name in differs},
        tuple(name for name in read.params if name not in differs),
        read.left_out,
    )
