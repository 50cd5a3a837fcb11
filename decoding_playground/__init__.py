"""Decoding with a record of every step: what a Python program uses of the playground.

The installed package has ``engine``, ``playground`` and ``visualizers`` in its folder ``root``, so that no
such general name is installed. They can be imported once this package is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine import STRATEGIES, DecodeRequest, LoadedModel, Trace, decode, decode_prompts, load
    from engine.trace import json_io
    from playground.notebook.watch import watch
    from visualizers.page import page

_HERE = Path(__file__).resolve().parent
ROOT = _HERE / "root" if (_HERE / "root").is_dir() else _HERE.parent
"""The folder of app.py and of the packages, in the installed package or in a checkout."""
_PACKAGES = ("engine", "playground", "visualizers")

__all__ = [
    "STRATEGIES",
    "DecodeRequest",
    "LoadedModel",
    "Trace",
    "decode",
    "decode_prompts",
    "json_io",
    "load",
    "page",
    "watch",
]
_HOMES = {"page": "visualizers.page", "watch": "playground.notebook.watch"}


class _RootFinder:
    """Finds the packages in ``ROOT``, whatever else bears their names, and nothing else."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of one of the packages; None for every other module."""
        del path, target
        return PathFinder.find_spec(name, [str(ROOT)]) if name in _PACKAGES else None


def _find_packages() -> None:
    taken = sys.modules.get("engine")
    if taken is None:
        sys.meta_path.insert(0, _RootFinder)
    elif not Path(taken.__file__ or "").is_relative_to(ROOT):
        raise ImportError(
            f"A module named engine is imported already, from {taken.__file__};"
            " import decoding_playground before it."
        )


_find_packages()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that reading a trace needs no torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "json_io":
        return import_module("engine.trace.json_io")
    return getattr(import_module(_HOMES.get(name, "engine")), name)
