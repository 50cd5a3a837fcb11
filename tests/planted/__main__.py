"""Plants every defect in a copy of the project and says which tests find it.

``python -m tests.planted [NAME…] [--day] [--workers N] [--write]``: all defects without a name;
``--day`` leaves out the nightly tests, and ``--write`` puts the findings into docs/planted.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.planted.defect import Defect, is_script
from tests.planted.defects import DEFECTS
from tests.planted.marks import is_nightly
from tests.planted.page import DAY, LEAST_BY_DAY, NIGHT, PAGE, Caught, caught_on, page_of
from tests.planted.running import NO_TEST_RAN, Copy, Workers, batches, by_file, run_tests

BY_DAY, BY_NIGHT, ALWAYS = "not nightly", "nightly", ""
"""Which tests run, as pytest's ``-m`` takes it."""
Findings = Mapping[Defect, Caught | None]
"""What caught each defect, None where it was missed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the status is 0 where enough defects were caught.

    With nightly tests these are all, and nine of ten by day. Defects that are named on the command
    line have to be caught every one.
    """
    asked = _parser().parse_args(arguments)
    chosen = _chosen(asked.names)
    with (
        tempfile.TemporaryDirectory(prefix="planted-") as place,
        Workers(asked.workers, Path(place)) as workers,
    ):
        unsound = _find_unsound(workers, chosen, asked.day)
        findings = dict(_plant(workers, chosen, unsound, asked.day))
    if asked.write:
        _write(findings, keep_night=asked.day)
    return _end(findings, unsound, asked.day, all_needed=bool(asked.names))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a defect; all without one")
    parser.add_argument("--day", action="store_true", help="leave out the nightly tests")
    parser.add_argument("--write", action="store_true", help=f"write the findings into {PAGE.name}")
    parser.add_argument(
        "--workers",
        type=_count,
        # Tests wait for servers and processes.
        default=(os.cpu_count() or 1) + 1,
        help="copies of the project to plant in at the same time; by default one more than cores",
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("it must be a whole number from 1")
    return int(text)


def _chosen(names: Sequence[str]) -> list[Defect]:
    known = {defect.name: defect for defect in DEFECTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        _parser().error(f"there is no defect {unknown[0]}: choose from {', '.join(known)}")
    return [known[name] for name in names] or list(DEFECTS)


def _tests_of(defect: Defect, day: bool) -> list[str]:
    return [test for test in defect.tests if not (day and is_nightly(test))]


def _find_unsound(workers: Workers, chosen: Sequence[Defect], day: bool) -> set[str]:
    """Return the tests that do not pass without any defect: with one they would show nothing."""
    files = by_file(test for defect in chosen for test in _tests_of(defect, day))
    # One process for many files: importing torch takes longer than most of these tests.
    jobs = batches(list(files.values()), workers.count)
    unsound: set[str] = set()
    for found in workers.map(lambda copy, batch: _unsound_of(copy, batch, day), jobs):
        for tests, left, why in found:
            unsound |= set(left)
            file = tests[0].split("::")[0]
            _print(f"{'VOID' if left else 'sound':7} {file}: {len(tests)} tests{why}")
    return unsound


def _unsound_of(
    copy: Copy, files: Sequence[Sequence[str]], day: bool
) -> list[tuple[Sequence[str], list[str], str]]:
    """Return (tests, those that do not pass, why) for each of some files."""
    marks = BY_DAY if day else ALWAYS
    result = run_tests(copy, [test for tests in files for test in tests], marks, to_the_end=True)
    if len(files) > 1 and (result.broken or result.failed):
        # One file may have spoiled it for the others.
        return [one for tests in files for one in _unsound_of(copy, [tests], day)]
    answers = []
    for tests in files:
        left = [test for test in tests if test not in result.passed or test in result.failed]
        left = list(tests) if result.broken else left
        why = f", do not pass without a defect: {', '.join(left)} {result.broken}" if left else ""
        answers.append((tests, left, why))
    return answers


def _plant(
    workers: Workers, chosen: Sequence[Defect], unsound: set[str], day: bool
) -> Iterator[tuple[Defect, Caught | None]]:
    """Yield every defect with what caught it."""
    ready = []
    for defect in chosen:
        if unsound.intersection(defect.tests):
            _print(f"VOID    {defect.name}: its tests do not pass without it")
            yield defect, None
        else:
            ready.append(defect)
    # Scripts take a moment each and fill the time in which the last slow test still runs.
    ready.sort(key=lambda defect: all(map(is_script, defect.tests)))
    for defect, caught, why in workers.map(lambda copy, one: _try(copy, one, day), ready):
        word = f"{'caught' if caught else 'MISSED':7}"
        _print(f"{word} {defect.name}: " + (f"{caught.test}, by {caught.when}" if caught else why))
        yield defect, caught


def _try(copy: Copy, defect: Defect, day: bool) -> tuple[Defect, Caught | None, str]:
    """Plant a defect in a copy and return (it, what caught it, why it was missed)."""
    path, date = copy.folder / defect.file, datetime.now(UTC).date().isoformat()
    by_day = _tests_of(defect, day=True)
    # A test may run by day with some of its parameters and at night with the others.
    runs = [(by_day, BY_DAY, DAY)] if by_day else []
    others = [test for test in defect.tests if not is_script(test)]
    runs += [(others, BY_NIGHT, NIGHT)] if others and not day else []
    sound, why = path.read_text("utf-8"), "" if runs else "only nightly tests find it"
    path.write_text(defect.planted(sound), "utf-8")
    try:
        for tests, marks, when in runs:
            result = run_tests(copy, tests, marks)
            if result.failed:
                return defect, Caught(result.failed[0], when, date), ""
            why = why or result.broken.removeprefix(NO_TEST_RAN)
    finally:
        path.write_text(sound, "utf-8")
    return defect, None, why or "all of its tests pass"


def _write(findings: Findings, keep_night: bool) -> None:
    """Put the findings into the page, which keeps what it says of other defects.

    Args:
        findings: of this run.
        keep_night: the nightly tests did not run, so what they caught before still holds.
    """
    known = caught_on(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    for defect, caught in findings.items():
        before = known.pop(defect.name, None)
        if caught is not None:
            known[defect.name] = caught
        elif keep_night and before is not None and before.when == NIGHT:
            known[defect.name] = before
    PAGE.write_text(page_of(DEFECTS, known), "utf-8")


def _end(findings: Findings, unsound: set[str], day: bool, all_needed: bool) -> int:
    """Print the sum and return the exit status."""
    caught = [found for found in findings.values() if found is not None]
    missed = len(findings) - len(caught)
    by_day = sum(found.when == DAY for found in caught)
    _print(f"{len(caught)} of {len(findings)} caught, {by_day} by day")
    too_few_by_day = not all_needed and by_day < LEAST_BY_DAY * len(findings)
    failed = unsound or too_few_by_day or (missed and (all_needed or not day))
    return int(bool(failed))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
