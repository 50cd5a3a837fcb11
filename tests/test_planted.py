"""The list of planted defects is true, all of them are caught, and what runs them is not fooled."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.npm import NODE
from tests.planted import running
from tests.planted.__main__ import main
from tests.planted.defect import ROOT, is_script
from tests.planted.defects import DEFECTS
from tests.planted.page import PAGE, caught_on, page_of
from tests.planted.running import Result, run_tests

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
SCRIPT = """
import { test } from "node:test";
test("it holds", () => {});
test("it fails (at once)", () => {
  throw new Error("no");
});
test("it is broken", () => unknown);
"""


def each(defects=DEFECTS):
    return pytest.mark.parametrize("defect", defects, ids=lambda defect: defect.name)


def test_there_are_enough_and_in_every_part_of_the_project():
    names = [defect.name for defect in DEFECTS]
    assert len(set(names)) == len(names) >= LEAST
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    drawn = [d for d in DEFECTS if d.file.startswith(("playground/client/", "visualizers/"))]
    assert len(drawn) >= LEAST_DRAWN
    assert {d.file.split("/")[0] for d in DEFECTS} == {"engine", "playground", "visualizers"}
    for defect in DEFECTS:
        assert re.fullmatch(r"[^a-z`].*\.", defect.says), defect.name


@each()
def test_a_defect_can_be_planted(defect, tmp_path):
    sound = (ROOT / defect.file).read_text("utf-8")
    planted = defect.planted(sound)
    assert planted != sound
    path = tmp_path / f"planted{'.mjs' if defect.file.endswith('.mjs') else '.py'}"
    path.write_text(planted, "utf-8")
    if path.suffix == ".py":
        ast.parse(planted)
        # A name that nobody knows would be an error, and no defect.
        rules = ["--isolated", "--no-cache", "--select", "E9,F821", "--target-version", "py310"]
        command = [sys.executable, "-m", "ruff", "check", *rules, str(path)]
    else:
        command = [str(NODE), "--check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@each()
def test_the_tests_of_a_defect_are_there(defect):
    assert defect.tests
    for test in defect.tests:
        path, name = test.split("::")
        source = (ROOT / path).read_text("utf-8")
        if is_script(test):
            titles = ["".join(found) for found in TITLE.findall(source)]
            assert any(re.fullmatch(HOLE.sub(".+", re.escape(t)), name) for t in titles), test
        else:
            found = {n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
            assert name in found, test


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
def folder(tmp_path):
    """Return a folder with tests that end in every way."""
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "test_no_code.py").write_text("def test_holds(:\n")
    (tmp_path / "cases.test.mjs").write_text(SCRIPT)
    (tmp_path / "no_code.test.mjs").write_text("test(")
    return tmp_path


def test_a_test_that_fails_is_told_from_one_that_holds(folder):
    holds, fails = "test_cases.py::test_holds", "test_cases.py::test_fails"
    assert run_tests(folder, [fails, holds]) == Result((fails,), (fails,))
    assert run_tests(folder, [fails, holds], all_of_them=True) == Result((fails, holds), (fails,))


def test_a_script_that_fails_is_told_from_one_that_holds(folder):
    holds, fails = "cases.test.mjs::it holds", "cases.test.mjs::it fails (at once)"
    assert run_tests(folder, [holds]) == Result(passed=(holds,))
    assert run_tests(folder, [holds, fails]) == Result((holds,), (fails,))


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
def test_what_does_not_run_is_not_caught(folder, test, says):
    result = run_tests(folder, [test])
    assert result.failed == ()
    assert says in result.broken


def test_what_never_ends_is_ended(folder, monkeypatch):
    monkeypatch.setattr(running, "LIMIT_S", 0.5)
    result = run_tests(folder, ["test_cases.py::test_never_ends"])
    assert result == Result(broken="no test had failed after 0.5 s")


def test_a_defect_that_nobody_knows_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["no-such-defect"])
    assert ended.value.code == 2
    assert "there is no defect no-such-defect" in capsys.readouterr().err
