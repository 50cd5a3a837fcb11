"""Decoding with a record of every step's candidates and the reason for every decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.analysis.dial_map.build import map_dial
    from engine.analysis.dial_map.grid import map_two_dials
    from engine.analysis.tune.read_plan import load_plan, read_plan
    from engine.analysis.tune.run_table import run_table
    from engine.analysis.tune.table import Table
    from engine.models.loading import LoadedModel, load
    from engine.run.decoding import decode
    from engine.run.request import DecodeRequest
    from engine.serving.prompt_batch import decode_prompts
    from engine.strategies import STRATEGIES
    from engine.trace.records import Trace

__all__ = [
    "STRATEGIES",
    "DecodeRequest",
    "LoadedModel",
    "Table",
    "Trace",
    "decode",
    "decode_prompts",
    "load",
    "load_plan",
    "map_dial",
    "map_two_dials",
    "read_plan",
    "run_table",
]

_HOMES = {
    "STRATEGIES": "engine.strategies",
    "DecodeRequest": "engine.run.request",
    "LoadedModel": "engine.models.loading",
    "Trace": "engine.trace.records",
    "decode": "engine.run.decoding",
    "decode_prompts": "engine.serving.prompt_batch",
    "load": "engine.models.loading",
    "map_dial": "engine.analysis.dial_map.build",
    "map_two_dials": "engine.analysis.dial_map.grid",
    "Table": "engine.analysis.tune.table",
    "load_plan": "engine.analysis.tune.read_plan",
    "read_plan": "engine.analysis.tune.read_plan",
    "run_table": "engine.analysis.tune.run_table",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that reading a trace needs no torch."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
