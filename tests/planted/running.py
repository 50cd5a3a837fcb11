"""Runs named tests in copies of the project, and reads which of them failed and how."""

from __future__ import annotations

import os
import re
import shutil
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
from tests.planted.forks import Forks, end_group

LIMIT_S = 300
"""How long the tests of one defect, or of one file, may take."""
_HANGS_S = 120
"""After so long a test that hangs has failed, as it has after longer in every run of the tests."""
_PATIENCE_S = "60"
"""How long one of them waits for what never comes; see ``tests.helpers.patience``."""
Job, Found = TypeVar("Job"), TypeVar("Found")
NO_TEST_RAN = "no test ran"
_REPORT = ".planted.xml"
_IMPORTED_ONCE = (
    "gradio",
    "plotly",
    "playwright.sync_api",
    "torch",
    "transformers.generation.utils",
)
"""Packages that most tests import. Importing them takes longer than most of these tests."""
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


class Copy:
    """A copy of the project, and what runs its tests there.

    Args:
        folder: where it is.
        modules: what is imported once for all tests there, see ``Forks``.
    """

    def __init__(self, folder: Path, modules: Sequence[str] = ()) -> None:
        self.folder = folder
        self.environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
        # Only what is compiled by hash may stay: by its time a file looks the same with its defect.
        self.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "TESTS_PATIENCE_S": _PATIENCE_S}
        self.forks = Forks(folder, self.environ, modules)


class Workers:
    """Threads that each have a copy of the project, in which their jobs may write.

    Args:
        count: how many.
        place: an empty folder for the copies.
    """

    def __init__(self, count: int, place: Path) -> None:
        self.count = count
        first = place / "0"
        copy_to(first)
        compile_in(first)
        others = [place / str(number) for number in range(1, count)]
        for other in others:
            shutil.copytree(first, other, symlinks=True)
        self._copies = [Copy(folder, _IMPORTED_ONCE) for folder in (first, *others)]
        self._free: SimpleQueue[Copy] = SimpleQueue()
        for copy in self._copies:
            self._free.put(copy)
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for copy in self._copies:
            copy.forks.end()

    def map(self, job: Callable[[Copy, Job], Found], given: Iterable[Job]) -> Iterator[Found]:
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
    copy: Copy, tests: Sequence[str], marks: str = "", *, to_the_end: bool = False
) -> Result:
    """Run tests in a copy of the project.

    Args:
        copy: of the project.
        tests: ``file::name``, see ``Defect.tests``.
        marks: which of them, as pytest's ``-m`` takes it; all by default. A script always runs.
        to_the_end: go on after the first that fails.
    """
    scripts = [test for test in tests if is_script(test)]
    others = [test for test in tests if not is_script(test)]
    results = [_node(copy, test) for test in scripts]
    if others:
        results.append(_pytest(copy, others, marks, to_the_end))
    return Result(
        tuple(name for result in results for name in result.passed),
        tuple(name for result in results for name in result.failed),
        next((result.broken for result in results if result.broken), ""),
    )


def _pytest(copy: Copy, tests: Sequence[str], marks: str, to_the_end: bool) -> Result:
    arguments = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    arguments += [
        # gradio imports packages that bring pytest plugins, and pytest warns that it came too late for them.
        "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning",
        f"--timeout={_HANGS_S}",
        *([] if to_the_end else ["-x"]),
        f"--junitxml={copy.folder / _REPORT}",
        # The project's own options leave out the nightly tests.
        "-m",
        marks,
        *tests,
    ]
    named = {key_of(test): test for test in tests}
    return _reported(copy, lambda limit_s: copy.forks.run(arguments, limit_s), named)


def _node(copy: Copy, test: str) -> Result:
    path, name = test.split("::")
    options = [f"--test-name-pattern=^{re.escape(name)}$", "--test-reporter=junit"]
    options.append(f"--test-reporter-destination={copy.folder / _REPORT}")
    command = [str(NODE), "--test", *options, path]
    return _reported(copy, lambda limit_s: _run(copy, command, limit_s), {("", name): test})


def key_of(test: str) -> tuple[str, str]:
    """Return the module and the name of a test, as pytest reports them."""
    file, name = test.split("::")
    return file.removesuffix(".py").replace("/", "."), name


def _reported(
    copy: Copy, run: Callable[[float], str | None], named: dict[tuple[str, str], str]
) -> Result:
    """Run tests and read the report that they write.

    Args:
        copy: where they run.
        run: takes a limit in seconds and returns what the tests print, None if they took longer.
        named: see ``read``.
    """
    report = copy.folder / _REPORT
    report.unlink(missing_ok=True)
    limit_s = LIMIT_S * len({module for module, _ in named})
    said = run(limit_s)
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


def _run(copy: Copy, command: Sequence[str], limit_s: float) -> str | None:
    """Return what a command writes to its standard output, None where it has to be ended."""
    with subprocess.Popen(
        command,
        cwd=copy.folder,
        env=copy.environ,
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
            end_group(process.pid)


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
