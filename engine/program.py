"""How this program is called and extended: from a checkout, or as the installed package."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTION = "decoding-playground"
"""Name of the package on an index, and of its command."""
IS_PACKAGE = _ROOT.name == "root" and _ROOT.parent.name == "decoding_playground"
"""Whether the code runs from the installed package, which has everything in its folder ``root``."""
COMMAND = DISTRIBUTION if IS_PACKAGE else "python -m engine"
"""Beginning of every command that is shown to a user."""
PAGE_COMMAND = DISTRIBUTION if IS_PACKAGE else "make run"
"""The command that serves the page."""


def install_command(extra: str) -> str:
    """Return the command that installs optional packages.

    Args:
        extra: models, openvino, notebook or cluster.
    """
    wanted = f"'{DISTRIBUTION}[{extra}]'" if IS_PACKAGE else f"-r requirements-{extra}.txt"
    return f"python -m pip install {wanted}"
