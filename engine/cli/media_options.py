"""Command options for a picture or a sound."""

from __future__ import annotations

import argparse
from typing import Any


def add_media_options(command: argparse.ArgumentParser) -> None:
    """Add the options of ``run``: picture, sound and speech settings."""
    group = command.add_argument_group("picture or sound for the model")
    file = "file or example:NAME"
    group.add_argument("--image", metavar="FILE", help=f"picture: {file}")
    group.add_argument("--audio", metavar="FILE", help=f"sound: {file}")
    group.add_argument("--language", help="speech model: spoken language; default: detected")
    group.add_argument("--task", help="speech model: transcribe or translate")
    group.add_argument(
        "--timestamps", action="store_true", help="speech model: write timestamps in seconds"
    )


def add_media_file_options(command: argparse.ArgumentParser) -> None:
    """Add the options that supply the picture or sound of a trace, which its file lacks."""
    command.add_argument("--image", metavar="FILE", help="picture of the recorded run")
    command.add_argument("--audio", metavar="FILE", help="sound of the recorded run")


def open_media_files(arguments: argparse.Namespace) -> None:
    """Open the given files, which puts them into the media cache."""
    from engine.media import open_media

    open_media(arguments.image, arguments.audio)


def media_request_fields(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the request fields ``image``, ``audio`` and ``speech`` that the options set."""
    told = {"language": arguments.language, "task": arguments.task}
    speech: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    if arguments.timestamps:
        speech["return_timestamps"] = True
    found = {"image": arguments.image, "audio": arguments.audio, "speech": speech or None}
    return {name: value for name, value in found.items() if value is not None}
