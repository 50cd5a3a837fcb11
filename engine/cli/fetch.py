"""The command ``fetch``: downloads or builds a model of the catalogue on this machine, once."""

from __future__ import annotations

import argparse
import sys

from engine.cli.argument_values import Commands
from engine.cli.status_line import DownloadBar, StatusLine


def add(commands: Commands) -> None:
    """Add the command ``fetch``."""
    fetch = commands.add_parser(
        "fetch", help="download or build a model of the catalogue, such as smollm2"
    )
    fetch.add_argument("model", help="catalogue name; the command list shows them")
    fetch.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.models.install import install_model

    with StatusLine() as line:
        folder = install_model(arguments.model, DownloadBar(line).show_progress)
    sys.stdout.write(f"{arguments.model} is at {folder}\n")
