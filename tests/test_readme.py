"""The README keeps its word: every command runs, every file is there, every target exists."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TRAINING = (ROOT / "training" / "README.md").read_text()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(README)
SHELL = [line for kind, text in BLOCKS if kind in ("", "sh", "bash") for line in text.splitlines()]
ENGINE = [line for line in SHELL if line.startswith("python -m engine ")]


def test_every_block_is_checked_here():
    assert {kind for kind, _ in BLOCKS} <= {"", "sh", "bash", "python"}
    for line in SHELL:
        assert not line or line.startswith(("make ", "python -m engine ")), line
    assert len(ENGINE) >= 5


def test_the_engines_commands_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for line in ENGINE:
        arguments = shlex.split(line, comments=True)[3:]
        assert main(arguments) == 0, (line, capsys.readouterr().err)
        assert capsys.readouterr().out.strip(), f"{line} says nothing"


def test_the_python_blocks_run(capsys):
    blocks = [text for kind, text in BLOCKS if kind == "python"]
    assert blocks
    for text in blocks:
        exec(compile(text, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith("Started\n")
    assert "Candidate(" in said


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z]+)", README))))
def test_every_target_is_one_of_the_makefile(target):
    if f"`make {target}`" not in README and f"\nmake {target}" not in README:
        return  # a word of a sentence
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", ["README.md", "training/README.md"])
def test_every_link_and_every_named_path_is_there(where):
    text = (ROOT / where).read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / where).parent.joinpath(link).exists(), link
    for path in re.findall(r"`([a-z_]+/[\w./]*)`", text):
        assert (ROOT / path).exists(), path


def test_the_front_matter_is_what_a_space_needs():
    fields = dict(
        line.split(": ", 1) for line in README.split("---")[1].strip().splitlines() if ": " in line
    )
    assert (fields["sdk"], fields["sdk_version"]) == ("gradio", version("gradio"))
    assert (ROOT / fields["app_file"]).is_file()
    assert len(fields["short_description"]) <= 60
    assert fields["title"] in README.split("---", 2)[2]


def test_settings_named_in_the_texts_exist():
    names = {f"PLAYGROUND_{name.upper()}" for name in Settings.__dataclass_fields__}
    for name in re.findall(r"PLAYGROUND_[A-Z_]+", README):
        assert name == "PLAYGROUND_" or name in names | {"PLAYGROUND_PORT", "PLAYGROUND_HOST"}


def test_the_trainings_commands_have_the_options_they_are_shown_with():
    for line in re.findall(
        r"^python -m (training\.\w+|benchmarks\.\w+)(.*)$", TRAINING, re.MULTILINE
    ):
        module, rest = line
        source = (ROOT / (module.replace(".", "/") + ".py")).read_text()
        for option in re.findall(r"--[a-z-]+", rest):
            assert f'"{option}"' in source, f"{module} has no {option}"
