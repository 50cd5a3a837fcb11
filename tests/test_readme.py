"""The README keeps its word: every command runs, every file is there, every target exists."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.settings import Settings
from visualizers.__main__ import main as visualizers

ROOT = Path(__file__).parents[1]
CODE = ("engine", "playground", "visualizers", "training", "benchmarks")
README = (ROOT / "README.md").read_text()
TRAINING = (ROOT / "training" / "README.md").read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(README)
SHELL = [line for kind, text in BLOCKS if kind in ("", "sh", "bash") for line in text.splitlines()]
COMMANDS = {"engine": main, "visualizers": visualizers}
RUN = [line for line in SHELL if line.startswith("python -m ")]
TARGETS = sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE)))
VARIABLE = re.compile(r"PLAYGROUND_[A-Z_]*[A-Z]")
LIMITS = {f"PLAYGROUND_{field.name.upper()}" for field in fields(Settings)}
SOURCES = [ROOT / "app.py", *(p for name in CODE for p in (ROOT / name).rglob("*.py"))]
DOCS = [path for path in (ROOT / "docs").iterdir() if path.suffix in (".md", ".json")]
# What the code reads from the environment by its whole name.
READ = {
    name for path in SOURCES for name in re.findall(r'"(PLAYGROUND_[A-Z_]+)"', path.read_text())
}


def test_every_block_is_checked_here():
    assert {kind for kind, _ in BLOCKS} <= {"", "sh", "bash", "python"}
    for line in SHELL:
        assert not line or line.startswith(("make ", "python -m ")), line
    assert len(RUN) >= 5


# By day test_contributing.py runs `verify`, which starts a process that loads a model.
@pytest.mark.parametrize(
    "left_out", ["verify", pytest.param("", id="none", marks=pytest.mark.nightly)]
)
def test_the_commands_run_one_after_the_other(left_out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for line in RUN:
        module, *arguments = shlex.split(line, comments=True)[2:]
        if arguments[0] == left_out:
            continue
        assert COMMANDS[module](arguments) == 0, (line, capsys.readouterr().err)
        assert capsys.readouterr().out.strip(), f"{line} says nothing"


def test_the_python_blocks_run(capsys):
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert blocks
    for text in blocks:
        exec(compile(text, "README.md", "exec"), {})
    said = capsys.readouterr().out
    # The model is loaded first unless an earlier test has done so.
    assert said.removeprefix("Loading\n").startswith("Started\n")
    assert "Candidate(" in said


def test_the_targets_are_found():
    assert {"run", "test"} <= set(TARGETS)


def test_every_target_is_one_of_the_makefile():
    done = subprocess.run(
        ["make", "--dry-run", "--keep-going", *TARGETS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "pattern", "least"),
    [
        (README, r"\]\(([^)#:]+)\)", 4),
        (README, r"`([a-z_]+/[\w./]*)`", 6),
        (TRAINING, r"(assets/models/[\w-]+)", 4),
    ],
    ids=["links", "paths", "models"],
)
def test_every_link_and_every_named_path_is_there(text, pattern, least):
    found = re.findall(pattern, text)
    assert len(found) >= least
    assert not [path for path in found if not (ROOT / path).exists()]


def test_the_front_matter_is_what_a_space_needs():
    fields = dict(
        line.split(": ", 1) for line in README.split("---")[1].strip().splitlines() if ": " in line
    )
    assert (fields["sdk"], fields["sdk_version"]) == ("gradio", version("gradio"))
    assert (ROOT / fields["app_file"]).is_file()
    assert len(fields["short_description"]) <= 60
    assert fields["title"] in README.split("---", 2)[2]


def test_every_variable_named_in_the_texts_is_read():
    texts = [README, TRAINING, *(path.read_text() for path in DOCS)]
    named = {name for text in texts for name in VARIABLE.findall(text)}
    assert named
    assert not named - READ - LIMITS


def test_every_variable_that_is_no_limit_is_in_the_readme():
    assert "`PLAYGROUND_<NAME>`" in README
    assert READ - LIMITS
    assert not READ - LIMITS - set(VARIABLE.findall(README))


def test_the_trainings_commands_have_the_options_they_are_shown_with():
    lines = re.findall(r"^python -m (training\.\w+)(.*)$", TRAINING, re.MULTILINE)
    assert len(lines) > 10
    for module, rest in lines:
        source = (ROOT / (module.replace(".", "/") + ".py")).read_text()
        for option in re.findall(r"--[a-z-]+", rest):
            assert f'"{option}"' in source, f"{module} has no {option}"
