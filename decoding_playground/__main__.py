"""The command ``decoding-playground``: the page, or a command of the engine."""

from __future__ import annotations

import runpy
import sys

from decoding_playground import ROOT


def main() -> None:
    """Serve the page if there are no arguments; otherwise run a command and exit with its status."""
    if len(sys.argv) > 1:
        runpy.run_module("engine", run_name="__main__")
    else:
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")


if __name__ == "__main__":
    main()
