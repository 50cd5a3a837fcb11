"""Every recipe of the page for contributors, followed to the letter, and what they would run then."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.recipes import ROOT, TITLES, changed, copy_repository, read_recipe, run, state_of

FILES = {
    "Add a filter": 1,
    "Add a strategy": 2,
    "Add a lesson": 1,
}
FOLDERS = {
    "Add a picture": "visualizers/favourites",
    "Add a language": "assets/text/it",
}
CONTRACT = "tests/test_contract.py", "-k", "entropy_temperature or sampling"
LINES = {"Add a filter": 1, "Add a strategy": 2}
GENERATED = ("docs/", "visualizers/shared/summaries.d.ts", "visualizers/stage/view_index.mjs")
"""What the commands of a recipe write again."""
_SECONDS = 3600
_QUICK = """
import subprocess, sys
sys.exit(subprocess.call(["make", "-o", ".venv/.dev", "-o", "node_modules/.ready", "quick"]))
"""


@pytest.fixture(params=TITLES)
def title(request):
    return request.param


def test_a_recipe_takes_no_more_than_is_promised(title):
    recipe = read_recipe(title)
    added = [row for hunks in recipe.lines.values() for row in hunks.splitlines() if row[0] == "+"]
    assert len(added) == LINES.get(title, 0)
    if title in FOLDERS:
        assert {str(Path(path).parent) for path in recipe.files} == {FOLDERS[title]}
        assert not (ROOT / FOLDERS[title]).exists()
    else:
        assert len(recipe.files) == FILES[title]


@pytest.mark.nightly
@pytest.mark.timeout(_SECONDS)
def test_make_quick_and_the_contract_tests_pass_after_all_recipes(tmp_path):
    """In one copy, as most of the time goes to `make quick`; a fault of one recipe fails it, too."""
    copy = copy_repository(tmp_path)
    # A contributor has set both up.
    (copy / ".venv").symlink_to(sys.prefix)
    (copy / "node_modules").symlink_to(ROOT / "node_modules")
    for title in TITLES:
        recipe = read_recipe(title)
        recipe.follow(copy)
        edited = state_of(copy)
        for command in recipe.commands:
            run(copy, *command)
        written = {path for path in changed(edited, state_of(copy)) if path in edited}
        assert all(path.startswith(GENERATED) for path in written), (title, written)
    run(copy, "-c", _QUICK, within_s=_SECONDS)
    run(copy, "-m", "pytest", "-q", "-p", "no:xdist", *CONTRACT, within_s=_SECONDS)
