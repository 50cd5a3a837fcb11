"""Measures the CPU and wall seconds of every test and fixture, child processes included.

A pytest plugin: ``pytest -p tests.helpers.cost --cost-to FOLDER`` writes one file of JSON lines per
process, and ``python -m tests.helpers.cost FOLDER`` writes docs/test_profile.md from them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "test_profile.md"
_ROWS = 50
_STARTS = frozenset(("subprocess.Popen", "os.fork", "os.posix_spawn"))
_SERVERS = frozenset(("server", "here", "served", "client", "door", "hall"))
KINDS = ("in one process", "with a separate process", "with a server", "with a browser")


def cpu_seconds() -> float:
    """Return the CPU seconds that this process and all its children have used so far.

    A child that has ended counts with what its parent learned when it waited for it; the seconds of a
    child whose parent ended first are lost.
    """
    total = 0.0
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            used = process.cpu_times()
        except psutil.Error:  # it has just ended; its parent has its seconds
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total


class CostPlugin:
    """Writes down what each test and each shared fixture costs.

    Args:
        folder: where this process writes its file.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.jsonl").open("w")
        # Wall and CPU seconds of shared fixtures, which the test that asks first must not pay for.
        self._shared = (0.0, 0.0)
        self._started = 0
        sys.addaudithook(self._count_starts)

    def _count_starts(self, event: str, _args: Any) -> None:
        self._started += event in _STARTS

    def _write(self, **row: Any) -> None:
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self):
        """Measure what importing the test modules costs."""
        began = _now()
        result = yield
        wall, cpu = _since(began)
        self._write(kind="collection", name="importing the tests", wall_s=wall, cpu_s=cpu)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        """Measure a fixture that more than one test uses."""
        del request
        if fixturedef.scope == "function":
            return (yield)
        began = _now()
        try:
            return (yield)
        finally:
            wall, cpu = _since(began)
            self._shared = (self._shared[0] + wall, self._shared[1] + cpu)
            name = f"{fixturedef.baseid or fixturedef.func.__module__}::{fixturedef.argname}"
            self._write(kind="fixture", name=name, wall_s=wall, cpu_s=cpu)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Measure a test with its own fixtures and with what it ends."""
        self._shared, started, began = (0.0, 0.0), self._started, _now()
        result = yield
        wall, cpu = _since(began)
        self._write(
            kind="test",
            name=item.nodeid,
            wall_s=wall - self._shared[0],
            cpu_s=cpu - self._shared[1],
            where=_kind_of(item.fixturenames, self._started - started),
        )
        return result


def _now() -> tuple[float, float]:
    return time.perf_counter(), cpu_seconds()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    """Return the wall and CPU seconds since then, at least 0: killed processes take theirs along."""
    wall, cpu = _now()
    return wall - began[0], max(0.0, cpu - began[1])


def _kind_of(fixtures: Iterable[str], started: int) -> str:
    if "browser" in fixtures:
        return KINDS[3]
    if not _SERVERS.isdisjoint(fixtures):
        return KINDS[2]
    return KINDS[1] if started else KINDS[0]


def pytest_addoption(parser) -> None:
    """Take the folder."""
    parser.addoption("--cost-to", help="folder for the seconds of every test and fixture")


def pytest_configure(config) -> None:
    """Measure in the processes that run tests, not in the one that deals them out."""
    folder = config.getoption("--cost-to")
    deals = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if folder and not deals:
        config.pluginmanager.register(CostPlugin(Path(folder).absolute()))


def page_of(rows: list[dict[str, Any]], nightly: Sequence[str], place: str) -> str:
    """Return the page: sums by kind and by folder, the most expensive tests and fixtures, the nightly tests.

    Args:
        rows: as the plugin writes them.
        nightly: ids of the tests that only ``make nightly`` runs.
        place: when and on what they were measured.
    """
    tests = [row for row in rows if row["kind"] == "test"]
    kinds = Counter(row["where"] for row in tests)
    lines = [
        "# What the tests cost",
        "",
        "`make profile-tests` measures every test and every shared fixture of `make test`, and writes this page.",
        "CPU seconds include child processes: servers, browsers, sandboxes. Parameters of a test are one row.",
        "",
        place,
        "",
        f"**{len(tests):,} tests, {_sum(rows, 'cpu_s'):,.0f} CPU s.**",
        "",
        *_table(("tests", "number"), [(kind, f"{kinds[kind]:,}") for kind in KINDS]),
        "",
        *_table(("folder", "CPU s"), [(f"`{n}`", f"{s:,.0f}") for n, s in _by_folder(rows)]),
        "",
        *_table(("test or fixture", "times", "CPU s", "wall s"), _most_expensive(rows)),
        "",
        "## Nightly tests",
        "",
        f"{len(nightly):,} tests, counted with their parameters, are left to `make nightly`:",
        "",
        *_table(("file", "tests"), _by_file(nightly)),
    ]
    return "\n".join(lines) + "\n"


def _sum(rows: Iterable[dict[str, Any]], field: str) -> float:
    return sum(row[field] for row in rows)


def _by_folder(rows: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    sums: dict[str, float] = defaultdict(float)
    for row in rows:
        file = Path(row["name"].split("::")[0])
        sums[str(file.parent if file.suffix == ".py" else file)] += row["cpu_s"]
    return sorted(sums.items(), key=lambda item: -item[1])


def _most_expensive(rows: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        suffix = " (fixture)" if row["kind"] == "fixture" else ""
        groups[f"`{row['name'].split('[')[0]}`{suffix}"].append(row)
    first = sorted(groups.items(), key=lambda item: -_sum(item[1], "cpu_s"))[:_ROWS]
    return [
        (name, str(len(found)), f"{_sum(found, 'cpu_s'):.1f}", f"{_sum(found, 'wall_s'):.1f}")
        for name, found in first
    ]


def _by_file(tests: Iterable[str]) -> list[tuple[str, str]]:
    """Return each file with the names of its tests and, in brackets, how many parameters each has."""
    counts = Counter(test.split("[")[0] for test in tests)
    files: dict[str, list[str]] = defaultdict(list)
    for test, count in counts.items():
        file, name = test.split("::", 1)
        files[file].append(f"{name} ({count})" if count > 1 else name)
    return [(f"`{file}`", ", ".join(names)) for file, names in files.items()]


def _nightly_tests() -> list[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "--collect-only",
        "-m",
        "nightly",
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if line.startswith("tests/") and "::" in line]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = [head, ("---",) * len(head), *rows]
    return [f"| {' | '.join(row)} |" for row in cells]


def main(folder: Path) -> None:
    """Write the page from the files of a folder."""
    files = sorted(folder.glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    day = datetime.now(UTC).date().isoformat()
    place = (
        f"Measured on {day} at `{commit}` with {len(files)} processes on {os.cpu_count()} cores."
    )
    PAGE.write_text(page_of(rows, _nightly_tests(), place))
    sys.stdout.write(f"{PAGE.relative_to(PAGE.parents[1])}: {len(rows):,} tests and fixtures\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
