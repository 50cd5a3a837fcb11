"""The command ``export``: writes a trace as code, a table, a config or an archive."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.cli.argument_values import Commands
from engine.errors import ExportError
from engine.trace import json_io

_FORMS = ("code", "pipeline", "stream", "csv", "config", "zip")


def add(commands: Commands) -> None:
    """Add the command ``export``."""
    export = commands.add_parser(
        "export", help="write a recorded run as code, a table or an archive"
    )
    export.add_argument("file", help="trace file")
    export.add_argument(
        "--as",
        dest="form",
        choices=_FORMS,
        default="code",
        help="code: script and notebook, with a decoding loop or a pipeline where the run needs or "
        "allows one; pipeline: only the pipeline; stream: a script that prints the text while it is "
        "written; csv: one row per step; config: "
        "generation_config.json; zip: all of these and the trace",
    )
    export.add_argument(
        "--to", required=True, help="folder (code, pipeline, stream) or file to write"
    )
    export.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from engine.export.files import (
        all_files,
        export_files,
        generation_config_text,
        pipeline_files,
        stream_files,
        zip_files,
    )

    trace, target = json_io.load(arguments.file), Path(arguments.to)
    if arguments.form == "csv":
        from engine.export.steps_csv import steps_csv

        _write_files({target: steps_csv(trace).encode()})
    elif arguments.form == "config":
        _write_files({target: generation_config_text(trace).encode()})
    elif arguments.form == "zip":
        _write_files({target: zip_files(all_files(trace))})
    else:
        forms = {"pipeline": pipeline_files, "stream": stream_files}
        files = forms.get(arguments.form, export_files)(trace)
        _write_files({target / path: text.encode() for path, text in files.items()})
    return 0


def _write_files(files: dict[Path, bytes]) -> None:
    """Write files atomically: each appears whole or not at all.

    Raises:
        ExportError: a file cannot be written.
    """
    for path, data in files.items():
        partial = path.with_name(path.name + ".part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            # A rename is atomic, so that no reader sees half a file.
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise ExportError(
                "{folder} could not be written: {error}.", folder=path.name, error=error.strerror
            ) from None
        sys.stdout.write(f"{path}\n")
