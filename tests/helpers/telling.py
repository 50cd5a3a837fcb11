"""The playground with every end of a run in its log: ``python -m tests.helpers.telling``."""

from __future__ import annotations

import logging
import re
from pathlib import Path

_ENDED = re.compile(r"^run ([0-9a-f]+) ended after ", re.MULTILINE)


def runs_ended(log: Path) -> list[str]:
    """Return the ids of the runs whose end is in a log."""
    return _ENDED.findall(log.read_text(errors="replace"))


def main() -> None:
    """Serve as app.py does."""
    told = logging.StreamHandler()
    told.setFormatter(logging.Formatter("%(message)s"))
    engine = logging.getLogger("engine")
    engine.setLevel(logging.INFO)
    engine.addHandler(told)
    from app import main as serve

    serve()


if __name__ == "__main__":
    main()
