"""The command ``gallery``: records the presets and examples that the playground ships."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from engine.cli.argument_values import Commands


def add(commands: Commands) -> None:
    """Add the command ``gallery``."""
    gallery = commands.add_parser(
        "gallery", help="record the shipped presets and examples again; takes minutes"
    )
    gallery.add_argument("--to", type=Path, help="folder to write to; default: the shipped gallery")
    gallery.add_argument(
        "--talks", action="store_true", help="record only the conversations with a real model"
    )
    gallery.add_argument(
        "--dial-maps",
        action="store_true",
        help="compute only the maps of the dials of the recorded sampled runs",
    )
    gallery.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from engine.analysis import examples
    from engine.analysis.gallery import FOLDER, record_dial_maps, record_gallery

    folder = arguments.to or FOLDER
    if arguments.dial_maps:
        _print_files(record_dial_maps(folder), folder, "a dial map")
        return
    for entry in record_gallery(folder, _print_progress, talks_only=arguments.talks):
        size = (folder / entry.file).stat().st_size
        sys.stdout.write(f"{size:8} bytes  {entry.file:32} {entry.title}\n")
    recorded = [] if arguments.talks else examples.record_examples(folder / examples.FOLDER.name)
    _print_files(recorded, folder, "an example")
    if not arguments.talks:
        _print_files(record_dial_maps(folder), folder, "a dial map")


def _print_files(paths: Iterable[Path], folder: Path, kind: str) -> None:
    for path in paths:
        name = str(path.relative_to(folder))
        sys.stdout.write(f"{path.stat().st_size:8} bytes  {name:32} {kind}\n")


def _print_progress(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
