"""Whether OpenVINO is there, and what makes a graph another one."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

NEEDED = "openvino"
HOW = "python -m pip install -r requirements-openvino.txt"
"""Installs it."""
_GRAPHS = 1
"""Counts the ways in which graphs were made here."""


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Return whether the package can be imported."""
    return importlib.util.find_spec(NEEDED) is not None


def made_by() -> str:
    """Return what made a graph: with another one it is made anew."""
    try:
        own, transformers = version(NEEDED), version("transformers")
    except PackageNotFoundError:
        own = transformers = "none"
    return f"{NEEDED} {own}, transformers {transformers}, graphs {_GRAPHS}"
