"""Runs named tests in a copy of the project, and reads which of them failed and how."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.npm import NODE
from tests.planted.defect import ROOT, is_script

LIMIT_S = 300
"""How long the tests of one defect may take."""
_HANGS_S = 120
"""After so long a test that hangs has failed, as it has after longer in every run of the tests."""
_PATIENCE_S = "60"
"""How long one of them waits for what never comes; see ``tests.helpers.patience``."""
_REPORT = ".planted.xml"
_SHARED = (".venv", "node_modules", ".browsers")
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


def run_tests(folder: Path, tests: Sequence[str], *, all_of_them: bool = False) -> Result:
    """Run tests in a copy of the project.

    Args:
        folder: the copy.
        tests: ``file::name``, see ``Defect.tests``.
        all_of_them: go on after the first that fails.
    """
    scripts = [test for test in tests if is_script(test)]
    others = [test for test in tests if not is_script(test)]
    results = [_node(folder, test) for test in scripts]
    if others:
        results.append(_pytest(folder, others, all_of_them))
    return Result(
        tuple(name for result in results for name in result.passed),
        tuple(name for result in results for name in result.failed),
        next((result.broken for result in results if result.broken), ""),
    )


def _pytest(folder: Path, tests: Sequence[str], all_of_them: bool) -> Result:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += [
        f"--timeout={_HANGS_S}",
        *([] if all_of_them else ["-x"]),
        f"--junitxml={folder / _REPORT}",
        *tests,
    ]
    return _reported(command, folder, {test.split("::")[-1]: test for test in tests})


def _node(folder: Path, test: str) -> Result:
    path, name = test.split("::")
    options = [f"--test-name-pattern=^{re.escape(name)}$", "--test-reporter=junit"]
    options.append(f"--test-reporter-destination={folder / _REPORT}")
    return _reported([str(NODE), "--test", *options, path], folder, {name: test})


def _reported(command: Sequence[str], folder: Path, named: dict[str, str]) -> Result:
    """Run a command and read the report that it writes."""
    report = folder / _REPORT
    report.unlink(missing_ok=True)
    said = _run(command, folder)
    if said is None:
        return Result(broken=f"no test had failed after {LIMIT_S} s")
    if not report.exists():
        return Result(broken=f"there is no report: {_last_line(said)}")
    return read(report.read_text("utf-8"), named)


def read(report: str, named: dict[str, str]) -> Result:
    """Read the report of a run in JUnit's form.

    Args:
        report: the XML.
        named: what each test that was asked for is called there -> its full name.
    """
    passed, failed, broken = [], [], ""
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = named.get(case.get("name", ""), named.get(case.get("name", "").split("[")[0]))
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
        broken = "no test ran"
    return Result(tuple(dict.fromkeys(passed)), tuple(dict.fromkeys(failed)), broken)


def _run(command: Sequence[str], folder: Path) -> str | None:
    """Return what a command writes to its standard output, None where it has to be ended."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    # What was compiled of a file before would be taken for the file with the defect in it.
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
            return process.communicate(timeout=LIMIT_S)[0]
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
