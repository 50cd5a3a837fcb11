"""Whether OpenVINO is installed, and the versions that a stored graph depends on."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

NEEDED = "openvino"
HOW = "python -m pip install -r requirements-openvino.txt"
"""Command that installs it."""
_GRAPHS = 1
"""Version of the conversion code; increase it when graphs must be rebuilt."""


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Return True if the package can be imported."""
    return importlib.util.find_spec(NEEDED) is not None


def made_by() -> str:
    """Return the versions a graph is built with; with others it is rebuilt."""
    try:
        own, transformers = version(NEEDED), version("transformers")
    except PackageNotFoundError:
        own = transformers = "none"
    return f"{NEEDED} {own}, transformers {transformers}, graphs {_GRAPHS}"
