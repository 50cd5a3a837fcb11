"""Plants every defect in a copy of the project and says which tests find it.

``python -m tests.planted [NAME…] [--write]``: all defects without a name, and ``--write`` puts what came
of them into docs/planted.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.planted.defect import Defect
from tests.planted.defects import DEFECTS
from tests.planted.page import PAGE, Caught, caught_on, page_of
from tests.planted.running import by_file, copy_to, run_tests


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the status is 0 where every defect was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a defect; all without one")
    parser.add_argument("--write", action="store_true", help=f"write it into {PAGE.name}")
    asked = parser.parse_args(arguments)
    known = {defect.name: defect for defect in DEFECTS}
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        parser.error(f"there is no defect {unknown[0]}: choose from {', '.join(known)}")
    chosen = [known[name] for name in asked.names] or list(DEFECTS)
    with tempfile.TemporaryDirectory(prefix="planted-") as place:
        copy_to(Path(place))
        unsound = _unsound(Path(place), chosen)
        caught = dict(_caught(Path(place), chosen, unsound))
    missed = [defect.name for defect in chosen if not caught[defect]]
    if asked.write:
        _write(caught)
    return _end(f"{len(chosen) - len(missed)} of {len(chosen)} caught", failed=bool(missed))


def _unsound(place: Path, chosen: Sequence[Defect]) -> set[str]:
    """Return the tests that do not pass without any defect: with one they would say nothing."""
    unsound = set()
    files = by_file(test for defect in chosen for test in defect.tests)
    for file, tests in files.items():
        result = run_tests(place, tests, all_of_them=True)
        left = [test for test in tests if test not in result.passed or test in result.failed]
        left = tests if result.broken else left
        unsound |= set(left)
        why = (
            f", without a defect these do not pass: {', '.join(left)} {result.broken}"
            if left
            else ""
        )
        _tell(f"{'VOID' if left else 'sound':7} {file}: {len(tests)} tests{why}")
    return unsound


def _caught(
    place: Path, chosen: Sequence[Defect], unsound: set[str]
) -> Iterator[tuple[Defect, tuple[str, ...]]]:
    """Yield every defect with the tests that caught it, none where it was missed."""
    for defect in chosen:
        if unsound.intersection(defect.tests):
            _tell(f"VOID    {defect.name}: its tests do not pass without it")
            yield defect, ()
            continue
        path = place / defect.file
        sound = path.read_text("utf-8")
        path.write_text(defect.planted(sound), "utf-8")
        result = run_tests(place, defect.tests)
        path.write_text(sound, "utf-8")
        word = "caught" if result.failed else "MISSED"
        why = ", ".join(result.failed) or result.broken or "all of its tests pass"
        _tell(f"{word:7} {defect.name}: {why}")
        yield defect, result.failed


def _write(caught: Mapping[Defect, Sequence[str]]) -> None:
    """Put what came of some defects into the page; what it says of others stays."""
    day = datetime.now(UTC).date().isoformat()
    known = caught_on(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    for defect, failed in caught.items():
        known.pop(defect.name, None)
        if failed:
            known[defect.name] = Caught(failed[0], day)
    PAGE.write_text(page_of(DEFECTS, known), "utf-8")


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _end(line: str, failed: bool = True) -> int:
    _tell(line)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
