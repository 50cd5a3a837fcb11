"""Whether OpenVINO is installed, and the versions that a stored graph depends on."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from engine.program import install_command

PACKAGE = "openvino"
INSTALL_COMMAND = install_command("openvino")
"""Command that installs it."""
_GRAPH_FORMAT = 1
"""Version of the conversion code; increase it when graphs must be rebuilt."""


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Return True if the package can be imported."""
    return importlib.util.find_spec(PACKAGE) is not None


def converter_version() -> str:
    """Return the versions a graph is built with; with others it is rebuilt."""
    try:
        own, transformers = version(PACKAGE), version("transformers")
    except PackageNotFoundError:
        own = transformers = "none"
    return f"{PACKAGE} {own}, transformers {transformers}, graphs {_GRAPH_FORMAT}"
