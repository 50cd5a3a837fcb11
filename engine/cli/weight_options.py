"""Command options for weight formats and placement, one per parameter of ``declare.weights``."""

from __future__ import annotations

import argparse
from typing import Any

from engine.cli.argument_values import parse_value
from engine.declare.params import Flag, Param
from engine.declare.weights import MemoryLimits, weights_params

_DEST_PREFIX = "held_"


def add_weight_options(command: argparse.ArgumentParser, *, assistant: bool) -> None:
    """Add one option per weight parameter.

    Args:
        command: parser of a command that loads a model.
        assistant: True if it may also load a draft model.
    """
    group = command.add_argument_group("number format and placement of the weights")
    for name, kind in weights_params(assistant).items():
        group.add_argument(
            f"--{name.replace('_', '-')}", dest=_DEST_PREFIX + name, **_option_kwargs(kind)
        )


def _option_kwargs(kind: Param) -> dict[str, Any]:
    # argparse formats help texts with %.
    told = {"help": kind.help.replace("%", "%%"), "default": None}
    if isinstance(kind, Flag):
        return told | {"action": "store_true"}
    if isinstance(kind, MemoryLimits):
        return told | {"type": parse_value, "metavar": "JSON"}
    return told | {"metavar": "NAME"}


def weight_request_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the weight options that were set, by their request names."""
    found = {
        n: v for n, v in vars(arguments).items() if n.startswith(_DEST_PREFIX) and v is not None
    }
    return {name.removeprefix(_DEST_PREFIX): value for name, value in found.items()}
