"""The recipe for a filter is followed to the letter in a copy of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.trace import json_io
from tests.helpers.recipes import (
    LINT_IMPORTS,
    ROOT,
    changed,
    copy_repository,
    follow_in_process,
    read_recipe,
    run,
    state_of,
)

pytestmark = pytest.mark.nightly

RECIPE = read_recipe("Add a filter")
[FILE] = RECIPE.files
NAME = Path(FILE).stem
GENERATED = {"docs/strategies.md", "docs/papers.md", "docs/glossary.md"}
# The tests of `make quick` that read declarations and texts; the others open pictures and lock files.
BY_QUICK = ("tests/test_languages.py", "tests/playground/test_page_words.py")
# What is asked of every filter, parameter, term and text.
ASKED = (
    "tests/engine/test_filters.py",
    "tests/engine/test_words.py",
    "tests/visualizers/test_terms.py",
    "tests/playground/test_translate_spec.py",
    "tests/playground/test_declared_controls.py",
)
CONTRACT = "tests/test_contract.py"


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """Follow the recipe; return the copy, its states before, edited and after, and what was said."""
    place = tmp_path_factory.mktemp("filter")
    copy, work = copy_repository(place), place / "work"
    work.mkdir()
    untouched = state_of(copy)
    RECIPE.follow(copy)
    edited = state_of(copy)
    sampling = [f"{CONTRACT}::{name}[sampling]" for name in contract_tests()]
    paths = [*ASKED, *sampling]
    facts, done = follow_in_process(RECIPE, copy, work, paths)
    return SimpleNamespace(
        copy=copy,
        states=(untouched, edited, state_of(copy)),
        answers=facts["commands"],
        tests=done,
        trace=json_io.load(place / "filtered.json.gz"),
        work=place,
    )


def contract_tests():
    """Return the names of the tests that every strategy gets by day."""
    text = (ROOT / CONTRACT).read_text()
    return re.findall(r'parametrize\("name", [^\n]*\)\ndef (test_\w+)\(', text)


def test_the_recipe_has_one_file_and_one_line():
    assert Path(FILE).parent.as_posix() == "engine/processors"
    assert list(RECIPE.lines) == ["engine/processors/__init__.py"]
    added = re.findall(r"^\+(.*)$", RECIPE.lines["engine/processors/__init__.py"], re.MULTILINE)
    assert [line.strip() for line in added] == [f'"{NAME}",']
    assert [command[0] for command in RECIPE.engine_commands] == [
        *("run", "replay", "export", "verify", "docs")
    ]


def test_no_other_file_is_touched_but_those_that_are_generated(followed):
    untouched, edited, after = followed.states
    assert changed(untouched, edited) == {FILE, *RECIPE.lines}
    assert changed(edited, after) <= GENERATED
    assert "docs/glossary.md" in changed(edited, after)


def test_every_command_does_what_it_says(followed):
    said = {
        command[0]: text
        for command, (_, text) in zip(RECIPE.engine_commands, followed.answers, strict=True)
    }
    assert [status for status, _ in followed.answers] == [0] * len(RECIPE.engine_commands)
    assert "replay differs" not in said["replay"]
    assert f"All {len(followed.trace.outputs[0].token_ids)} tokens are equal." in said["verify"]
    scripts = [path.read_text() for path in (followed.work / "filtered").rglob("*.py")]
    assert any("logits_processor=[TopALogitsWarper(0.5)]" in script for script in scripts)


def test_the_run_keeps_what_the_filter_keeps(followed):
    removed = 0
    for step in followed.trace.steps:
        assert step.stages[0].name == "TopA"
        top = max(c.raw_logprob for c in step.candidates)
        for candidate in step.candidates:
            # p >= a p_max², as logarithms: a is 0.5.
            over = candidate.raw_logprob - (2 * top - 0.6931471805599453)
            assert abs(over) < 1e-4 or (candidate.removed_by == "TopA") == (over < 0)
            removed += over < 0
    assert removed > 100


def test_what_is_asked_of_every_filter_and_of_sampling_is_asked_of_this_one(followed):
    said = followed.tests.stdout
    assert followed.tests.returncode == 0, said[-4000:]
    assert re.search(r"\d+ passed", said), said[-4000:]


def test_what_make_quick_would_say_of_it(followed):
    run(
        followed.copy,
        *("-m", "pytest", "-q", "-p", "no:xdist", "-p", "tests.helpers.no_torch"),
        *BY_QUICK,
    )
    run(followed.copy, "-m", "ruff", "check", "--no-cache", FILE, *RECIPE.lines)
    run(followed.copy, "-m", "ruff", "format", "--no-cache", "--check", FILE, *RECIPE.lines)
    run(followed.copy, "-c", LINT_IMPORTS)
