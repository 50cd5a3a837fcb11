"""The package, built, installed in a fresh environment with what the index has, and run from another folder."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from contextlib import closing
from importlib import metadata

import pytest

from engine.trace import json_io
from tests.helpers.client import Client
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import ROOT, playground

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]  # torch is installed once more
MAX_BYTES = 50_000_000
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
LEFT_OUT = tuple(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"])
NAME = "decoding-playground"
PROGRAM = """
import sys
from decoding_playground import STRATEGIES, DecodeRequest, decode, json_io, page
assert not [path for path in sys.path if path.endswith("root")]
request = DecodeRequest("sampling", prompt="The dog", params={"max_new_tokens": 3}, seed=3)
*_, last = decode(request)
assert len(last.trace.steps) == 3
json_io.save(last.trace, "python.json.gz")
page(last.trace).save("run.html")
print(len(STRATEGIES))
"""


def done(command, **options):
    """Run a command; return what it printed."""
    ran = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def environment(folder, package):
    """Make an environment with a package in a folder; return the folder of its commands."""
    done([sys.executable, "-m", "venv", folder])
    # pip would compile thousands of modules that nothing here imports.
    done([folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile", package])
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    done([sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", folder, ROOT])
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return the folder of an environment's commands, with packages resolved from the ranges alone."""
    return environment(tmp_path_factory.mktemp("env"), wheel)


@pytest.fixture
def command(installed, tmp_path, monkeypatch):
    """Return a function that runs the command from another folder; it returns what was printed."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PLAYGROUND_MAX_CHECK_S", str(PATIENCE_S))
    return lambda *words: done([installed / NAME, *words], cwd=tmp_path)


@pytest.fixture(scope="module")
def uvx(wheel, tmp_path_factory):
    """Return the words that run the command with uvx, from an index that is a folder."""
    folder = tmp_path_factory.mktemp("uv")
    commands = environment(folder, "uv")
    index = folder / "simple" / NAME
    index.mkdir(parents=True)
    (index / "index.html").write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
    constraints = folder / "constraints.txt"
    constraints.write_text(f"torch=={metadata.version('torch')}\n")
    indexes = [index.parent.as_uri(), *pip_option("extra-index-url")]
    places = [word for one in indexes for word in ("--index", one)]
    places += [word for one in pip_option("find-links") for word in ("--find-links", one)]
    # As pip does: the best version of all indexes.
    places += ["--index-strategy", "unsafe-best-match"]
    places += ["--cache-dir", str(folder / "cache"), "--python", sys.executable]
    return [commands / "uvx", *places, "--constraints", constraints, NAME]


def pip_option(name):
    """Return the values of an option of pip's on this machine, so that uv finds the same packages."""
    lines = done([sys.executable, "-m", "pip", "config", "list"]).splitlines()
    return [
        value
        for line in lines
        for value in line.split("=", 1)[1].strip("'").split()
        if line.split("=", 1)[0].endswith(f".{name}")
    ]


def test_it_holds_what_its_users_need_under_one_name(wheel):
    assert wheel.stat().st_size < MAX_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "decoding_playground",
        f"decoding_playground-{VERSION}.dist-info",
    }
    folders = {name.split("/")[2] for name in names if name.startswith("decoding_playground/root/")}
    assert folders == {"app.py", "assets", "engine", "playground", "visualizers"}
    tracked = done(["git", "ls-files", "assets", "engine", "playground", "visualizers"], cwd=ROOT)
    needed = {path for path in tracked.splitlines() if not path.startswith(LEFT_OUT)}
    assert {f"decoding_playground/root/{path}" for path in needed} <= set(names)


def test_its_command_runs_verifies_exports_and_checks_lessons(command, tmp_path):
    assert f"usage: {NAME}" in command("--help")
    assert "storyteller" in command("list")
    words = ("--prompt", "Once upon a time", "--set", "temperature=0.7", "--max-new-tokens", "4")
    command("run", "sampling", *words, "--trace", "run.json.gz")
    command("verify", "run.json.gz")
    command("export", "run.json.gz", "--to", "exported")
    assert list((tmp_path / "exported").iterdir())
    command("lesson", "check")


def test_a_python_program_uses_its_public_names(installed, tmp_path):
    assert int(done([installed / "python", "-c", PROGRAM], cwd=tmp_path)) > 10
    assert "<html" in (tmp_path / "run.html").read_text()[:1000].lower()
    for name in ("engine", "assets", "playground"):
        code = f"import importlib.util as u; assert u.find_spec({name!r}) is None"
        done([installed / "python", "-c", code], cwd=tmp_path)


def test_uvx_runs_it_from_an_index_without_an_installation(uvx, tmp_path):
    words = ("--prompt", "Once upon a time", "--max-new-tokens", "4", "--trace", "run.json.gz")
    done([*uvx, "run", "greedy", *words], cwd=tmp_path)
    assert len(json_io.load(tmp_path / "run.json.gz").steps) == 4


def test_without_a_command_it_serves_the_page(installed, tmp_path):
    log, own = tmp_path / "log.txt", {"folder": tmp_path, "python": installed / "python"}
    with (
        playground(log, command=(str(installed / NAME),), **own) as url,
        closing(Client(url)) as client,
    ):
        assert len(client.works()["token_ids"]) == 3
        facts = client.get("/audit.json").json()
        assert facts["version"] == VERSION
