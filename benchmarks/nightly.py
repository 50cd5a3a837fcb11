"""The nightly tests, run to their end: ``python -m benchmarks.results nightly`` records how they ended."""

from __future__ import annotations

import re
import subprocess
import sys
import time

from benchmarks.about import ROOT, Goal
from benchmarks.figures import Figure, tell

_PYTEST = re.compile(r"^(?:(\d+) failed, )?(\d+) passed\b(?:.*, (\d+) errors?\b)?", re.MULTILINE)
_PLANTED = re.compile(r"^(\d+) of (\d+) caught", re.MULTILINE)
_MOST_MINUTES = Goal(60, of_speed=True)


def figures_of(printed: str, minutes: float) -> list[Figure]:
    """Return the figures of a run of ``make nightly``; a part that never ended counts as one failure.

    Args:
        printed: everything it printed.
        minutes: how long it took.
    """
    tests, planted = _PYTEST.search(printed), _PLANTED.search(printed)
    failed = int(tests[1] or 0) + int(tests[3] or 0) if tests else 1
    missed = int(planted[2]) - int(planted[1]) if planted else 1
    return [
        Figure("minutes", [minutes], _MOST_MINUTES, digits=1),
        Figure("tests passed", [int(tests[2]) if tests else 0]),
        Figure("tests failed", [failed], Goal(0)),
        Figure("planted defects found", [int(planted[1]) if planted else 0]),
        Figure("planted defects missed", [missed], Goal(0)),
    ]


def main() -> None:
    """Run ``make nightly``, show what it prints, and print the figures."""
    began, lines = time.monotonic(), []
    with subprocess.Popen(
        ["make", "nightly"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
    tell("nightly", figures_of("".join(lines), (time.monotonic() - began) / 60))


if __name__ == "__main__":
    main()
