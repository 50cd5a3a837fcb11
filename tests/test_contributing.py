"""The page for contributors is followed to the letter in a copy of the repository."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.trace import json_io
from tests.helpers.recipes import (
    LINT_IMPORTS,
    PAGE,
    TITLES,
    changed,
    copy_repository,
    follow_in_process,
    read_recipe,
    run,
    state_of,
)

ROOT = Path(__file__).parents[1]
RECIPE = read_recipe("Add a strategy")
FILES, LINES, COMMANDS = RECIPE.files, RECIPE.lines, RECIPE.engine_commands
DECLARED = next(path for path in FILES if path.startswith("engine/strategies/"))
NAME = Path(DECLARED).stem
GENERATED = {
    f"docs/{name}.md"
    for name in ("first_visit", "strategies", "combinations", "papers", "glossary")
}
# What is asked of every strategy, and of the pages and files that a new one changes.
ASKED = (
    "tests/test_contract.py",
    "tests/playground/test_page_of_registry.py",
    "tests/playground/test_declared_controls.py",
)
WHOLE = ("tests/engine/test_declarations.py", "tests/test_docs.py")


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """Follow the page; return the copy, its states before, edited and after, and what was seen."""
    place = tmp_path_factory.mktemp("contributor")
    copy, work = copy_repository(place), place / "work"
    work.mkdir()
    untouched = state_of(copy)
    RECIPE.follow(copy)
    edited = state_of(copy)
    facts, done = follow_in_process(RECIPE, copy, work, ["-k", NAME, *ASKED], NAME)
    return SimpleNamespace(
        copy=copy,
        states=(untouched, edited, state_of(copy)),
        facts=facts,
        contract=done,
        work=place,
        trace=json_io.load(place / "run.json.gz"),
    )


def test_the_page_has_two_files_and_two_lines():
    assert sorted(Path(path).parent.as_posix() for path in FILES) == [
        "engine/loops",
        "engine/strategies",
    ]
    assert {Path(path).stem for path in FILES} == {NAME}
    assert list(LINES) == ["engine/strategies/__init__.py"]
    added = re.findall(r"^\+(.*)$", LINES["engine/strategies/__init__.py"], re.MULTILINE)
    assert [line.strip() for line in added] == [f"{NAME},"] * 2
    assert [command[0] for command in COMMANDS] == [
        *("list", "run", "replay", "export", "verify", "docs")
    ]
    assert all(ast.get_docstring(ast.parse(text)) for text in FILES.values())


def test_every_link_path_and_target_of_the_page_is_there():
    named = re.findall(r"\]\(([^)#:]+)\)|`((?:engine|tests|visualizers)/[\w./]*)`", PAGE)
    written = {path for title in TITLES for path in read_recipe(title).files}
    paths = {link or path for link, path in named} - written
    assert len(paths) > 6
    assert not [path for path in paths if not (ROOT / path).exists()]
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"(?:^|`)make ([a-z-]+)", PAGE, re.MULTILINE))
    assert {"test", "lint", "lock"} <= targets
    assert not [target for target in targets if f"\n{target}:" not in makefile]


@pytest.mark.nightly
def test_no_other_file_is_touched_but_those_that_are_generated(followed):
    untouched, edited, after = followed.states
    assert changed(untouched, edited) == {*FILES, *LINES}
    assert changed(edited, after) == GENERATED


@pytest.mark.nightly
def test_every_command_of_the_page_does_what_it_says(followed):
    answers, trace = followed.facts["commands"], followed.trace
    said = {c[0]: text for c, (_, text) in zip(COMMANDS, answers, strict=True)}
    assert [status for status, _ in answers] == [0] * len(COMMANDS)
    assert re.search(
        rf"^{NAME} .*: max_new_tokens, .*edt_temperature, edt_theta", said["list"], re.MULTILINE
    )
    assert trace.strategy == NAME
    assert said["run"].strip("\n") == trace.outputs[0].text.strip("\n")
    assert said["replay"].startswith(f"{NAME} · storyteller")
    assert "replay differs" not in said["replay"]
    assert f"All {len(trace.outputs[0].token_ids)} tokens are equal." in said["verify"]
    brought = followed.work / "exported" / f"{NAME}_loop" / "custom_generate"
    assert FILES[f"engine/loops/{NAME}.py"].split("def ")[1] in (
        (brought / f"loops_{NAME}.py").read_text()
    )


@pytest.mark.nightly
def test_every_step_has_the_temperature_of_its_entropy(followed):
    config, steps = followed.trace.config, followed.trace.steps
    temperatures = []
    assert len(steps) > 50
    # The recorded digits of a smaller entropy are too few to compute its temperature from them.
    for step in (step for step in steps if step.entropy > 0.1):
        temperature = config["edt_temperature"] * 0.8 ** (config["edt_theta"] / step.entropy)
        first, second = step.candidates[:2]
        before = first.raw_logprob - second.raw_logprob
        after = first.processed_logprob - second.processed_logprob
        assert after * temperature == pytest.approx(before, rel=1e-2, abs=1e-3)
        temperatures.append(temperature)
    assert len(temperatures) > 20
    assert max(temperatures) > 2 * min(temperatures)


@pytest.mark.nightly
def test_the_page_of_the_playground_has_all_of_it(followed):
    page = followed.facts["page"]
    assert page["strategies"].index(NAME) == page["strategies"].index("sampling") + 1
    assert "Entropy temperature" in page["tabs"]
    assert f"page-{NAME}" in page["elements"]
    assert page["endpoint"][:4] == ["prompt", "model", "params", "seed"]
    assert page["form"]["title"] == "Entropy temperature"
    offered = {page["params"][place] for place in page["form"]["params"]}
    assert {"edt_temperature", "edt_theta"} <= offered


@pytest.mark.nightly
def test_what_is_asked_of_every_strategy_is_asked_of_this_one(followed):
    said = followed.contract.stdout
    assert followed.contract.returncode == 0, said[-4000:]
    passed = re.search(r"(\d+) passed, \d+ deselected", said)
    assert passed, said[-4000:]
    assert int(passed.group(1)) >= 8


@pytest.mark.nightly
def test_the_declarations_and_the_pages_hold_with_this_one(followed):
    run(followed.copy, "-m", "pytest", "-q", *WHOLE)


@pytest.mark.nightly
def test_its_code_keeps_the_style_and_the_direction_of_imports(followed):
    run(followed.copy, "-m", "ruff", "check", "--no-cache", *FILES, *LINES)
    run(followed.copy, "-m", "ruff", "format", "--no-cache", "--check", *FILES, *LINES)
    run(followed.copy, "-c", LINT_IMPORTS)
