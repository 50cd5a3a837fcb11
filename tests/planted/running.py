"""Runs named tests in copies of the project, and reads which of them failed and how."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar
from xml.etree import ElementTree

from tests.npm import NODE
from tests.planted.defect import ROOT, is_script

LIMIT_S = 300
"""How long the tests of one defect, or of one file, may take."""
_HANGS_S = 120
"""After so long a test that hangs has failed, as it has after longer in every run of the tests."""
_PATIENCE_S = "60"
"""How long one of them waits for what never comes; see ``tests.helpers.patience``."""
Job, Found = TypeVar("Job"), TypeVar("Found")
NO_TEST_RAN = "no test ran"
_REPORT = ".planted.xml"
_SHARED = (".venv", "node_modules", ".browsers")
_COMPILED = ("engine", "playground", "visualizers", "benchmarks", "training", "tests")
_NO_DEFECT = re.compile(
    r"^\W*(?:E +|cause: )?"
    r"(?:ImportError|ModuleNotFoundError|NameError|ReferenceError)\b",
    re.MULTILINE,
)
"""A test that fails with one of these was not asked about the defect: the planted text is broken."""


@dataclass(frozen=True)
class Result:
    """What came of some tests.

    Attributes:
        passed: names of the tests that passed.
        failed: names of those that failed in what they check.
        broken: why nothing can be said, empty where the tests ran.
    """

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    broken: str = ""


def copy_to(folder: Path) -> None:
    """Copy the project, as far as git knows of it, and share what is installed."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for name in _SHARED:
        if (ROOT / name).exists():
            (folder / name).symlink_to((ROOT / name).resolve())


class Workers:
    """Threads that each have a copy of the project, in which their jobs may write.

    Args:
        count: how many.
        place: an empty folder for the copies.
    """

    def __init__(self, count: int, place: Path) -> None:
        self.count = count
        self._free: SimpleQueue[Path] = SimpleQueue()
        first = place / "0"
        copy_to(first)
        compile_in(first)
        self._free.put(first)
        for number in range(1, count):
            shutil.copytree(first, place / str(number), symlinks=True)
            self._free.put(place / str(number))
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def map(self, job: Callable[[Path, Job], Found], given: Iterable[Job]) -> Iterator[Found]:
        """Yield what a job returns for each of what is given, in the order in which they end.

        Args:
            job: takes a copy of the project, which nobody else uses meanwhile, and one of the given.
            given: one for each call.
        """

        def run(one: Job) -> Found:
            copy = self._free.get()
            try:
                return job(copy, one)
            finally:
                self._free.put(copy)

        futures = [self._threads.submit(run, one) for one in given]
        for future in as_completed(futures):
            yield future.result()


def compile_in(folder: Path) -> None:
    """Compile the modules of a copy once for all processes that import them there.

    Python compares the hash of each source with the compiled one: a planted defect is never missed.
    """
    modes = ["--invalidation-mode", "checked-hash"]
    folders = [name for name in _COMPILED if (folder / name).is_dir()]
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", *modes, *folders], cwd=folder, check=True
    )


def run_tests(
    folder: Path, tests: Sequence[str], marks: str = "", *, to_the_end: bool = False
) -> Result:
    """Run tests in a copy of the project.

    Args:
        folder: the copy.
        tests: ``file::name``, see ``Defect.tests``.
        marks: which of them, as pytest's ``-m`` takes it; all by default. A script always runs.
        to_the_end: go on after the first that fails.
    """
    scripts = [test for test in tests if is_script(test)]
    others = [test for test in tests if not is_script(test)]
    results = [_node(folder, test) for test in scripts]
    if others:
        results.append(_pytest(folder, others, marks, to_the_end))
    return Result(
        tuple(name for result in results for name in result.passed),
        tuple(name for result in results for name in result.failed),
        next((result.broken for result in results if result.broken), ""),
    )


def _pytest(folder: Path, tests: Sequence[str], marks: str, to_the_end: bool) -> Result:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += [
        f"--timeout={_HANGS_S}",
        *([] if to_the_end else ["-x"]),
        f"--junitxml={folder / _REPORT}",
        # The project's own options leave out the nightly tests.
        "-m",
        marks,
        *tests,
    ]
    return _reported(command, folder, {key_of(test): test for test in tests})


def _node(folder: Path, test: str) -> Result:
    path, name = test.split("::")
    options = [f"--test-name-pattern=^{re.escape(name)}$", "--test-reporter=junit"]
    options.append(f"--test-reporter-destination={folder / _REPORT}")
    return _reported([str(NODE), "--test", *options, path], folder, {("", name): test})


def key_of(test: str) -> tuple[str, str]:
    """Return the module and the name of a test, as pytest reports them."""
    file, name = test.split("::")
    return file.removesuffix(".py").replace("/", "."), name


def _reported(command: Sequence[str], folder: Path, named: dict[tuple[str, str], str]) -> Result:
    """Run a command and read the report that it writes."""
    report = folder / _REPORT
    report.unlink(missing_ok=True)
    limit_s = LIMIT_S * len({module for module, _ in named})
    said = _run(command, folder, limit_s)
    if said is None:
        return Result(broken=f"no test had failed after {limit_s} s")
    if not report.exists():
        return Result(broken=f"there is no report: {_last_line(said)}")
    return read(report.read_text("utf-8"), named)


def read(report: str, named: dict[tuple[str, str], str]) -> Result:
    """Read the report of a run in JUnit's form.

    Args:
        report: the XML.
        named: (module, name) of each test there -> its full name; the module of a script is empty.
    """
    passed, failed, broken = [], [], ""
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = _name_of(case, named)
        wrong = case.find("failure"), case.find("error")
        said = next(
            ("\n".join((p.get("message", ""), p.text or "")) for p in wrong if p is not None), ""
        )
        if not said:
            # Node reports a file in which nothing was asked for as if it were a test.
            passed += [name] if name is not None and case.find("skipped") is None else []
        elif wrong[0] is not None and name is not None and not _NO_DEFECT.search(said):
            failed.append(name)
        else:
            broken = f"{case.get('name')}: {said.strip().partition(chr(10))[0]}"
    if not passed and not failed and not broken:
        broken = NO_TEST_RAN
    return Result(tuple(dict.fromkeys(passed)), tuple(dict.fromkeys(failed)), broken)


def _name_of(case: ElementTree.Element, named: dict[tuple[str, str], str]) -> str | None:
    """Return the full name of a test that was asked for, None for any other case of a report."""
    module, title = case.get("classname", ""), case.get("name", "")
    keys = [(module, title), (module, title.split("[")[0]), ("", title)]
    return next((named[key] for key in keys if key in named), None)


def _run(command: Sequence[str], folder: Path, limit_s: float) -> str | None:
    """Return what a command writes to its standard output, None where it has to be ended."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    # Only what is compiled by hash may stay: by its time a file looks the same with its defect.
    environ |= {"PYTHONDONTWRITEBYTECODE": "1", "TESTS_PATIENCE_S": _PATIENCE_S}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process with all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _last_line(text: str) -> str:
    return next(
        reversed([line for line in text.splitlines() if line.strip()] or ["it said nothing"])
    )


def by_file(tests: Iterable[str]) -> dict[str, list[str]]:
    """Return the tests of each file, each once."""
    files: dict[str, list[str]] = {}
    for test in dict.fromkeys(tests):
        files.setdefault(test.split("::")[0], []).append(test)
    return files


def batches(files: Sequence[Sequence[str]], count: int) -> list[list[Sequence[str]]]:
    """Return files in so many batches with about as many tests, none of them empty.

    Args:
        files: the tests of each.
        count: the most there may be.
    """
    made: list[list[Sequence[str]]] = [[] for _ in range(count)]
    for tests in sorted(files, key=len, reverse=True):
        min(made, key=lambda batch: sum(map(len, batch))).append(tests)
    return [batch for batch in made if batch]
