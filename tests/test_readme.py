"""The README and the documents by task are true: commands run, links lead somewhere, targets exist."""

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
# The documents that explain the playground by task, as their names below docs/.
TASKS = ("index", "models", "usage", "teaching", "deployment", "how_it_works")
PAGES = {"README.md": README} | {
    f"docs/{name}.md": (ROOT / "docs" / f"{name}.md").read_text() for name in TASKS
}
# Every command and every line of Python in these two runs.
BLOCKS = [block for page in ("README.md", "docs/usage.md") for block in FENCE.findall(PAGES[page])]
SHELL = [line for kind, text in BLOCKS if kind in ("", "sh", "bash") for line in text.splitlines()]
COMMANDS = {"engine": main, "visualizers": visualizers}
RUN = [line for line in SHELL if line.startswith("python -m ")]
TARGETS = sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", "\n".join(PAGES.values()), re.MULTILINE)))
# A command of another document, in a code block, which may need a model or a folder of the reader.
SHOWN = {
    (page, line.strip())
    for page, text in PAGES.items()
    for line in re.findall(r"^ *python -m engine .*$", text, re.MULTILINE)
    if line not in RUN
}
# The reader's own file that the commands read.
PLAN = """prompts: [The dog]
settings:
  - {strategy: greedy, params: {max_new_tokens: 4}}
"""
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


# By day test_contributing_filter.py runs commands of each kind.
@pytest.mark.nightly
def test_the_commands_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    for line in RUN:
        module, *arguments = shlex.split(line, comments=True)[2:]
        assert COMMANDS[module](arguments) == 0, (line, capsys.readouterr().err)
        assert capsys.readouterr().out.strip(), f"{line} says nothing"


def test_the_python_blocks_run(capsys):
    # Where a block asks a server, playground/test_openai.py has one.
    blocks = [text for kind, text in BLOCKS if kind == "python" and "base_url" not in text]
    assert blocks
    for text in blocks:
        exec(compile(text, "README.md or docs/usage.md", "exec"), {})
    said = capsys.readouterr().out
    # The models are loaded first unless earlier tests have done so.
    assert re.match(r"(Loading\n)*Started\n", said)
    assert "Candidate(" in said


@pytest.mark.parametrize(("page", "line"), sorted(SHOWN))
def test_a_command_that_is_shown_has_its_options(page, line, capsys):
    module, command, *arguments = shlex.split(line, comments=True)[2:]
    assert module == "engine"
    with pytest.raises(SystemExit) as end:
        main([command, *arguments, "--no-such-option"])
    assert end.value.code == 2
    # The parser complains of the added option alone.
    assert "unrecognized arguments: --no-such-option\n" in capsys.readouterr().err, (page, line)


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
        ("\n".join(PAGES.values()), r"`((?!owner/)[a-z_]+/[\w./]*)`", 6),
        (TRAINING, r"(assets/models/[\w-]+)", 4),
    ],
    ids=["links", "paths", "models"],
)
def test_every_link_and_every_named_path_is_there(text, pattern, least):
    found = re.findall(pattern, text)
    assert len(found) >= least
    assert not [path for path in found if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", PAGES[page])):
        if target.startswith("https:"):
            continue
        name, _, heading = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), f"{page}: {target}"
        assert not heading or heading in anchors_of(path.read_text()), f"{page}: {target}"


def anchors_of(text):
    """Return the anchors that GitHub gives the headings of a document."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_index_lists_every_document():
    listed = set(re.findall(r"\]\(([^)]+)\)", PAGES["docs/index.md"]))
    assert not {path.name for path in DOCS} - listed - {"index.md", "reliability.json"}


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120


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


def test_every_variable_that_is_no_limit_is_explained():
    page = PAGES["docs/deployment.md"]
    assert "`PLAYGROUND_<NAME>`" in page
    assert READ - LIMITS
    assert not READ - LIMITS - set(VARIABLE.findall(page))


def test_the_trainings_commands_have_the_options_they_are_shown_with():
    lines = re.findall(r"^python -m (training\.\w+)(.*)$", TRAINING, re.MULTILINE)
    assert len(lines) > 10
    for module, rest in lines:
        source = (ROOT / (module.replace(".", "/") + ".py")).read_text()
        for option in re.findall(r"--[a-z-]+", rest):
            assert f'"{option}"' in source, f"{module} has no {option}"
