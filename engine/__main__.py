"""The command line: ``python -m engine``."""

from __future__ import annotations

import sys

from engine.cli.main import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
