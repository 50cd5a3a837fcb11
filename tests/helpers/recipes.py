"""Follows the recipes of the page for contributors in a copy of the repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
# Of the hidden files, those that are part of the repository.
LEFT_OUT = shutil.ignore_patterns(".[!cdg]*", ".git", "__pycache__", "node_modules", "screenshots")
LINT_IMPORTS = "from importlinter import cli; raise SystemExit(cli.lint_imports(no_cache=True))"
_BLOCK = re.compile(r"^`([\w/.]+)`\n\n(```|~~~)(\w+)\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
TITLES = re.findall(r"^## (Add a .*)$", PAGE, re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """A section of the page: files to write, lines to add, commands to try.

    Attributes:
        files: path -> text.
        lines: path -> the hunks to put in.
        commands: what follows ``python`` in each line to type.
    """

    files: dict[str, str]
    lines: dict[str, str]
    commands: list[list[str]]

    @property
    def engine_commands(self) -> list[list[str]]:
        """The arguments of its commands of the engine."""
        return [line[2:] for line in self.commands if line[:2] == ["-m", "engine"]]

    def follow(self, copy: Path) -> None:
        """Write its files into a copy of the repository, and put in its lines."""
        for path, text in self.files.items():
            assert not (copy / path).exists(), f"{path} is there already"
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_text(text)
        for path, hunks in self.lines.items():
            (copy / path).write_text(put_in((copy / path).read_text(), hunks))


def read_recipe(title: str) -> Recipe:
    """Return the recipe of a section, by its heading."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## Add ")[0]
    blocks = [found.groups() for found in _BLOCK.finditer(section)]
    commands = re.findall(r"^python -m .*$", section, re.MULTILINE)
    return Recipe(
        {path: text for path, _, kind, text in blocks if kind != "diff"},
        {path: text for path, _, kind, text in blocks if kind == "diff"},
        [shlex.split(line)[1:] for line in commands],
    )


def follow_in_process(recipe: Recipe, copy: Path, work: Path, tests: list[str], strategy: str = ""):
    """Run the engine's commands of a recipe, then tests, in one process with a copy.

    Args:
        recipe: it has been followed in the copy.
        copy: the repository.
        work: the folder in which the commands run.
        tests: arguments of pytest.
        strategy: what the page has for this one is returned, too.

    Returns:
        ``commands``, (status, output) of each; ``page``, see ``newcomer.page_of``; and the process.
    """
    asked = {"commands": recipe.engine_commands, "strategy": strategy}
    asked |= {"copy": str(copy), "tests": tests}
    done = start(copy, work, "-m", "tests.helpers.newcomer", json.dumps(asked))
    facts = next((x for x in done.stdout.splitlines() if x.startswith('{"commands"')), None)
    assert facts, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(facts), done


def copy_repository(place: Path) -> Path:
    """Return a copy of the repository in a folder."""
    shutil.copytree(ROOT, place / "copy", ignore=LEFT_OUT)
    return place / "copy"


def state_of(folder):
    """Return path -> SHA-256 of every file, what Python, Gradio and tools leave behind apart."""
    paths = [p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".pyc", ".pyi")]
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in paths
        if not p.relative_to(folder).parts[0].startswith(".")
    }


def changed(before, after):
    """Return the paths that differ between two states."""
    assert set(before) <= set(after)
    return {path for path in after if before.get(path) != after[path]}


def put_in(text, hunks):
    """Return a file with the added lines of a page, each after the line that the page shows."""
    for hunk in re.split(r"^@@.*@@\n", hunks, flags=re.MULTILINE)[1:]:
        rows = hunk.splitlines()
        assert {row[0] for row in rows} == {" ", "+"}
        old = "\n" + "\n".join(row[1:] for row in rows if row[0] == " ") + "\n"
        new = "\n" + "\n".join(row[1:] for row in rows) + "\n"
        assert text.count(old) == 1, hunk
        text = text.replace(old, new)
    return text


def start(copy, cwd, *arguments, within_s=PATIENCE_S):
    """Run Python with a copy of the repository; return the process as it ended."""
    environ = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def run(copy, *arguments, within_s=PATIENCE_S):
    """Run Python in a copy of the repository, without an error."""
    done = start(copy, copy, *arguments, within_s=within_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
