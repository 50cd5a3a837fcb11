"""Writes a trace as an HTML page: ``python -m visualizers run.json.gz -o run.html``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.errors import EngineError
from engine.trace import json_io
from visualizers.page import page


def main(arguments: list[str] | None = None) -> int:
    """Read a trace, write its page and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m visualizers",
        description="Write one HTML file with all pictures of a run. It needs no server.",
    )
    parser.add_argument("trace", help="a trace file, .json or .json.gz")
    parser.add_argument("-o", "--output", help="where to; beside the trace by default")
    parser.add_argument("--dark", action="store_true", help="light letters on a dark ground")
    arguments_read = parser.parse_args(arguments)
    source = Path(arguments_read.trace)
    name = source.name.removesuffix(".gz").removesuffix(".json")
    try:
        made = page(json_io.load(source), dark=arguments_read.dark)
        saved = made.save(arguments_read.output or source.with_name(f"{name}.html"))
    except (EngineError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{saved} written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
