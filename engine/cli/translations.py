"""The command ``translations``: lists the texts of the page that a language lacks."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from engine.cli.argument_values import Commands
from engine.errors import EngineError

_ROOT = Path(__file__).parents[2]


def add(commands: Commands) -> None:
    """Add the command ``translations``."""
    command = commands.add_parser(
        "translations", help="list the texts of the page that a language lacks"
    )
    command.add_argument(
        "languages",
        nargs="*",
        metavar="LANGUAGE",
        help="a language code, such as de; all by default",
    )
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    if not (_ROOT / "playground" / "i18n" / "coverage.py").exists():
        raise EngineError("The page's texts are not here: run this in a whole checkout.")
    # The page's texts belong to the playground, which the engine does not import.
    command = [sys.executable, "-m", "playground.i18n.coverage", *arguments.languages]
    sys.exit(subprocess.run(command, cwd=_ROOT, check=False).returncode)
