"""The list of planted defects is true, all of them are caught, and what runs them is not fooled."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache

import psutil
import pytest

from tests.helpers.patience import comes_true
from tests.npm import NODE
from tests.planted import __main__ as planting
from tests.planted import marks, running
from tests.planted.defect import ROOT, Defect, is_script
from tests.planted.defects import DEFECTS
from tests.planted.marks import is_nightly
from tests.planted.page import DAY, LEAST_BY_DAY, PAGE, Caught, caught_on, page_of
from tests.planted.running import Copy, Result, batches, run_tests

LEAST, LEAST_DRAWN = 25, 6
# Of a script: the sentence of a test, in which what stands in braces may be anything.
TITLE = re.compile(r"""\btest\(\s*(?:"([^"]+)"|`([^`]+)`)""")
HOLE = re.compile(r"\\\$\\\{.*?\\\}")
CASES = """
import time

import pytest


def test_holds():
    assert True


@pytest.mark.parametrize("number", [1, 2])
def test_fails(number):
    assert number == 1


def test_is_broken():
    unknown_name


@pytest.fixture
def gone():
    raise OSError("gone")


def test_has_no_fixture(gone):
    pass


def test_never_ends():
    time.sleep(100_000)
"""
LEAVES = """
import pathlib
import subprocess
import sys


def test_it():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100_000)"])
    pathlib.Path("left").write_text(str(left.pid))
    left.returncode = 0  # or Python would warn of it
"""
MARKED = {
    "day.py": "@pytest.mark.real\ndef test_it(): ...\n",
    "day_in_part.py": '@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.nightly), 2])\n'
    "def test_it(n): ...\n",
    "night.py": "@pytest.mark.nightly\ndef test_it(): ...\n",
    "night_file.py": "pytestmark = pytest.mark.nightly\ndef test_it(): ...\n",
    "night_marks.py": "pytestmark = [pytest.mark.real, pytest.mark.nightly]\ndef test_it(): ...\n",
}
PROJECT = {
    "pyproject.toml": """
[tool.pytest.ini_options]
addopts = "-m 'not nightly'"
markers = ["nightly: too long"]
pythonpath = ["."]
""",
    "engine/part.py": "day = 1\nnight = 1\nvoid = 1\nlost = 1\n",
    "tests/test_part.py": """
import pytest

from engine import part


def test_day():
    assert part.day == 1


@pytest.mark.nightly
def test_night():
    assert part.night == 1


def test_void():
    assert part.void == 3
""",
}
# Parses modules without running them.
PARSE = """
const { readFileSync } = require("node:fs");
const { SourceTextModule } = require("node:vm");
for (const path of process.argv.slice(1)) {
  try {
    new SourceTextModule(readFileSync(path, "utf8"));
  } catch (error) {
    console.log(`${path}: ${error}`);
    process.exitCode = 1;
  }
}
"""
SCRIPT = """
import { test } from "node:test";
test("it holds", () => {});
test("it fails (at once)", () => {
  throw new Error("no");
});
test("it is broken", () => unknown);
"""


def test_there_are_enough_and_in_every_part_of_the_project():
    names = [defect.name for defect in DEFECTS]
    assert len(set(names)) == len(names) >= LEAST
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    drawn = [d for d in DEFECTS if d.file.startswith(("playground/client/", "visualizers/"))]
    assert len(drawn) >= LEAST_DRAWN
    assert {d.file.split("/")[0] for d in DEFECTS} == {"engine", "playground", "visualizers"}
    for defect in DEFECTS:
        assert re.fullmatch(r"[^a-z`].*\.", defect.says), defect.name


def test_a_defect_can_be_planted(tmp_path):
    """Every planted file is still code: one process checks all of Python, one all scripts."""
    for defect in DEFECTS:
        sound = (ROOT / defect.file).read_text("utf-8")
        planted = defect.planted(sound)
        assert planted != sound, defect.name
        suffix = ".mjs" if defect.file.endswith(".mjs") else ".py"
        (tmp_path / f"{defect.name}{suffix}").write_text(planted, "utf-8")
    scripts = sorted(map(str, tmp_path.glob("*.mjs")))
    assert scripts
    assert not ruff_faults(tmp_path)
    assert not node_faults(scripts)


def ruff_faults(folder):
    """Return what is no Python in a folder; an unknown name would be an error, and no defect."""
    rules = ["--isolated", "--no-cache", "--select", "E9,F821", "--target-version", "py310"]
    return said_by([sys.executable, "-m", "ruff", "check", "--quiet", *rules, str(folder)])


def node_faults(scripts):
    """Return what is no module of JavaScript, as ``node --check`` says it of one file at a time."""
    return said_by([str(NODE), "--no-warnings", "--experimental-vm-modules", "-e", PARSE, *scripts])


def said_by(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert (done.returncode == 0) == (said == ""), said
    return said


def test_what_cannot_be_planted_is_named(tmp_path):
    for name, text in {
        "good.py": "x = 1\n",
        "unknown.py": "print(y)\n",
        "broken.py": "def f(:\n",
        "good.mjs": 'import { a } from "./none.mjs";\nexport const b = await a;\n',
        "broken.mjs": "export const = 3;\n",
    }.items():
        (tmp_path / name).write_text(text)
    python = ruff_faults(tmp_path)
    assert "unknown.py" in python
    assert "broken.py" in python
    assert "good.py" not in python
    scripts = node_faults(sorted(map(str, tmp_path.glob("*.mjs"))))
    assert [line.split(":")[0] for line in scripts.splitlines()] == [str(tmp_path / "broken.mjs")]


def is_there(test):
    """Return whether a test that a defect names is in its file."""
    path, name = test.split("::")
    if is_script(test):
        titles = ["".join(found) for found in TITLE.findall((ROOT / path).read_text("utf-8"))]
        return any(re.fullmatch(HOLE.sub(".+", re.escape(title)), name) for title in titles)
    return name in functions_of(path)


@cache
def functions_of(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_tests_of_a_defect_are_there():
    assert all(defect.tests for defect in DEFECTS)
    lost = [f"{d.name}: {test}" for d in DEFECTS for test in d.tests if not is_there(test)]
    assert not lost, "\n".join(lost)


def test_nine_of_ten_defects_are_caught_by_day():
    caught = caught_on(PAGE.read_text("utf-8"))
    by_day = {name: found for name, found in caught.items() if found.when == DAY}
    assert len(by_day) >= LEAST_BY_DAY * len(DEFECTS)
    wrong = [f"{name}: {found.test}" for name, found in by_day.items() if is_nightly(found.test)]
    assert not wrong, "nightly, run python -m tests.planted --write\n" + "\n".join(wrong)


def test_a_test_is_nightly_by_its_own_mark_or_by_that_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "ROOT", tmp_path)
    for name, text in MARKED.items():
        (tmp_path / name).write_text(f"import pytest\n{text}")
    found = {name: marks.is_nightly(f"{name}::test_it") for name in MARKED}
    assert found == {name: name.startswith("night") for name in MARKED}
    assert not marks.is_nightly("it.test.mjs::it holds")


def test_the_page_says_of_every_defect_that_it_is_caught():
    page = PAGE.read_text("utf-8")
    caught = caught_on(page)
    assert [*caught] == [d.name for d in DEFECTS], "run python -m tests.planted --write"
    assert page == page_of(DEFECTS, caught)
    for defect in DEFECTS:
        assert caught[defect.name].test in defect.tests


def test_a_text_that_is_not_there_once_is_refused():
    for source in ("", 2 * DEFECTS[0].text):
        with pytest.raises(ValueError, match=DEFECTS[0].name):
            DEFECTS[0].planted(source)


@pytest.fixture
def copy(tmp_path):
    """Yield what runs tests in an empty folder."""
    copy = Copy(tmp_path)
    yield copy
    copy.forks.end()


@pytest.fixture
def cases(copy):
    """Return it with tests that end in every way."""
    (copy.folder / "test_cases.py").write_text(CASES)
    (copy.folder / "test_no_code.py").write_text("def test_holds(:\n")
    (copy.folder / "cases.test.mjs").write_text(SCRIPT)
    (copy.folder / "no_code.test.mjs").write_text("test(")
    return copy


def test_a_test_that_fails_is_distinguished_from_one_that_holds(cases):
    holds, fails = "test_cases.py::test_holds", "test_cases.py::test_fails"
    assert run_tests(cases, [fails, holds]) == Result((fails,), (fails,))
    assert run_tests(cases, [fails, holds], to_the_end=True) == Result((fails, holds), (fails,))


def test_a_script_that_fails_is_distinguished_from_one_that_holds(cases):
    holds, fails = "cases.test.mjs::it holds", "cases.test.mjs::it fails (at once)"
    assert run_tests(cases, [holds]) == Result(passed=(holds,))
    assert run_tests(cases, [holds, fails]) == Result((holds,), (fails,))


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("test_cases.py::test_is_broken", "NameError"),
        ("test_cases.py::test_has_no_fixture", "gone"),
        ("test_no_code.py::test_holds", "test_no_code"),
        ("cases.test.mjs::it is broken", "unknown is not defined"),
        ("cases.test.mjs::it is nobody's", "no test ran"),
        ("no_code.test.mjs::it holds", "no_code"),
    ],
)
def test_what_does_not_run_is_not_caught(cases, test, says):
    result = run_tests(cases, [test])
    assert result.failed == ()
    assert says in result.broken


def test_what_never_ends_is_ended(cases, monkeypatch):
    monkeypatch.setattr(running, "LIMIT_S", 0.5)
    result = run_tests(cases, ["test_cases.py::test_never_ends"])
    assert result == Result(broken="no test had failed after 0.5 s")


def test_what_a_test_leaves_running_is_ended(copy):
    test = "test_it.py::test_it"
    (copy.folder / "test_it.py").write_text(LEAVES)
    assert run_tests(copy, [test]) == Result(passed=(test,))
    left = int((copy.folder / "left").read_text())
    comes_true(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == "zombie")


def test_tests_of_one_name_are_distinguished_by_their_files(copy):
    for name, text in (("test_good.py", "pass"), ("test_bad.py", "assert False")):
        (copy.folder / name).write_text(f"def test_it():\n    {text}\n")
    good, bad = "test_good.py::test_it", "test_bad.py::test_it"
    assert run_tests(copy, [bad, good], to_the_end=True) == Result((good,), (bad,))


def test_a_module_of_the_folder_is_imported_anew_by_every_run(copy):
    test = "test_part.py::test_it"
    (copy.folder / "part.py").write_text("good = True\n")
    (copy.folder / "test_part.py").write_text(
        "import part\n\n\ndef test_it():\n    assert part.good\n"
    )
    assert run_tests(copy, [test]) == Result(passed=(test,))
    (copy.folder / "part.py").write_text("good = False\n")
    assert run_tests(copy, [test]) == Result(failed=(test,))


def test_batches_are_about_equal_and_none_is_empty():
    files = [["a"], ["b", "c", "d"], ["e"], ["f"]]
    assert [sorted(test for tests in batch for test in tests) for batch in batches(files, 2)] == [
        ["b", "c", "d"],
        ["a", "e", "f"],
    ]
    assert batches([["a"]], 4) == [[["a"]]]


def defect_of(name, tests):
    return Defect(name, "It is wrong.", "engine/part.py", f"{name} = 1", f"{name} = 2", tests)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Plant in a project of two files; return the path of its page."""
    part = "tests/test_part.py"
    tests = {name: (f"{part}::test_{name}",) for name in ("day", "night", "void")}
    defects = [defect_of(name, named) for name, named in {**tests, "lost": tests["day"]}.items()]

    def copy_to(folder):
        for name, text in PROJECT.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    copy_to(tmp_path)
    monkeypatch.setattr(running, "copy_to", copy_to)
    monkeypatch.setattr(marks, "ROOT", tmp_path)
    monkeypatch.setattr(planting, "DEFECTS", defects)
    monkeypatch.setattr(planting, "PAGE", tmp_path / "planted.md")
    return tmp_path / "planted.md"


@pytest.mark.nightly
def test_defects_are_planted_in_several_copies_and_written_down(tiny, capsys):
    assert planting.main(["--workers", "2", "--write"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[1:-1]) == [
        "MISSED  lost: all of its tests pass",
        "VOID    void: its tests do not pass without it",
        "caught  day: tests/test_part.py::test_day, by day",
        "caught  night: tests/test_part.py::test_night, by night",
    ]
    assert lines[0].startswith("VOID    tests/test_part.py: 3 tests, do not pass without a defect:")
    assert lines[-1] == "2 of 4 caught, 1 by day"
    assert {name: (c.test, c.when) for name, c in caught_on(tiny.read_text()).items()} == {
        "day": ("tests/test_part.py::test_day", "day"),
        "night": ("tests/test_part.py::test_night", "night"),
    }


@pytest.mark.nightly
def test_by_day_nightly_tests_are_left_out_and_what_they_caught_stays(tiny, capsys):
    night = Caught("tests/test_part.py::test_night", "night", "2026-11-25")
    tiny.write_text(page_of(planting.DEFECTS, {"night": night}))
    assert planting.main(["day", "night", "--workers", "1", "--day", "--write"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "sound   tests/test_part.py: 1 tests",
        "caught  day: tests/test_part.py::test_day, by day",
        "MISSED  night: only nightly tests find it",
        "1 of 2 caught, 1 by day",
    ]
    assert caught_on(tiny.read_text())["night"] == night


def test_a_defect_that_nobody_knows_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        planting.main(["no-such-defect"])
    assert ended.value.code == 2
    assert "there is no defect no-such-defect" in capsys.readouterr().err
