"""The commands that find, show and confirm a method."""

from __future__ import annotations

import io
import json
import sys

import pytest

from engine.cli.main import main
from engine.sandbox.method_lookup import find_method, list_offers
from engine.sandbox.trust import is_trusted
from tests.helpers.hub import SHA, asked
from tests.helpers.methods import PLAIN, set_for_methods, write_method
from tests.helpers.sentences import clean

NAME = "someone/mine"
README = "# mine\n\n| name | type | default | meaning |\n|---|---|---|---|\n| `strength` | float | 0.5 | how much |\n"
SOURCE = PLAIN.replace("generation_config=None", "generation_config=None, strength: float = 0.5")


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Keep methods in a folder of the test; nobody answers a question."""
    set_for_methods(monkeypatch, tmp_path / "kept")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))


@pytest.fixture
def folder(tmp_path):
    return write_method(tmp_path / "mine", SOURCE, readme=README, rule="LIMIT = 3\n")


def said(capsys, *words, status=0):
    """Run ``method`` with these words; return what it prints, and on refusal its one sentence."""
    assert main(["method", *map(str, words)]) == status
    out, err = capsys.readouterr()
    return clean(err.strip(), most=400) if status == 2 else out


def test_the_list_has_what_is_offered(capsys):
    lines = said(capsys, "list", "--json").splitlines()
    assert [json.loads(line)["name"] for line in lines] == list(list_offers())
    text = said(capsys, "list")
    assert "mirostat  (shipped)\n    Sampling that keeps the surprise" in text
    assert "DoLa as transformers keeps it; the strategy dola does the same." in text


def test_a_method_is_shown_with_its_code_and_not_run(folder, capsys):
    text = said(capsys, "show", folder)
    sha256 = find_method(str(folder)).method.sha256
    assert text.startswith(
        f"{folder}\n    source:  a folder on this machine\n    sha256:  {sha256}\n"
    )
    assert "may run: not until you allow it" in text
    assert "strength  float  0.5      how much\n" in text
    assert f"--- custom_generate/generate.py\n{SOURCE}" in text
    assert "--- custom_generate/rule.py\nLIMIT = 3\n" in text
    assert "built into the playground" in said(capsys, "show", "mirostat")
    told = json.loads(said(capsys, "show", folder, "--json"))
    assert (told["sha256"], told["may_run"], told["revision"]) == (sha256, False, None)
    assert told["files"]["custom_generate/rule.py"] == "LIMIT = 3\n"
    assert told["arguments"][0]["default"] == 0.5


def test_code_cannot_hide_from_a_terminal(folder, capsys):
    hidden = "import os  # \x1b[1A\x1b[2K\u202e\r# nothing to see\r\nX = 1\n"
    (folder / "custom_generate" / "rule.py").write_bytes(hidden.encode())
    text = said(capsys, "show", folder)
    assert "import os  # \\x1b[1A\\x1b[2K\\u202e\\r# nothing to see\nX = 1" in text


def test_nothing_is_confirmed_without_a_yes(folder, capsys, monkeypatch):
    for answer in ("", "no\n", "\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        assert "You did not confirm. The code may not run." in said(
            capsys, "trust", folder, status=1
        )
        assert not is_trusted(find_method(str(folder)))
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    text = said(capsys, "trust", folder)
    assert text.index(SOURCE) < text.index("run on this machine? [y/N]")
    assert f"{folder} is now allowed to run." in text
    assert is_trusted(find_method(str(folder)))
    assert "was already allowed to run" in said(capsys, "trust", folder)
    assert "was already allowed to run" in said(capsys, "trust", "mirostat")


def test_a_script_confirms_the_code_that_it_names(folder, capsys):
    sha256 = find_method(str(folder)).method.sha256
    assert "--yes needs --sha256" in said(capsys, "trust", folder, "--yes", status=2)
    other = said(capsys, "trust", folder, "--yes", "--sha256", "0" * 64, status=2)
    assert other == f"The code of {folder} has a different sha256, {sha256}. Nothing was changed."
    assert not is_trusted(find_method(str(folder)))
    said(capsys, "trust", folder, "--yes", "--sha256", sha256)
    assert is_trusted(find_method(str(folder)))


def test_who_confirms_another_revision_moves_the_name_to_it(tmp_path, monkeypatch, capsys):
    newer, state = "f" * 40, tmp_path / "state"
    write_method(tmp_path / "hub" / NAME, PLAIN)
    write_method(state, f"# anew\n{PLAIN}")
    with asked(tmp_path / "hub", monkeypatch) as hub:
        hub.tags["v2"], hub.states[newer] = newer, state
        assert f"source:  the hub, commit {SHA}" in said(capsys, "show", NAME)
        said(capsys, "show", f"{NAME}@v2")
        assert find_method(NAME).revision == SHA
        sha256 = find_method(f"{NAME}@v2").method.sha256
        text = said(capsys, "trust", f"{NAME}@v2", "--yes", "--sha256", sha256)
        assert f"This machine now uses {newer} for {NAME}." in text
        assert find_method(NAME).revision == newer
        assert is_trusted(find_method(NAME))


def test_what_cannot_be_found_is_one_sentence(capsys, tmp_path):
    assert "there is no such folder" in said(capsys, "show", tmp_path / "none", status=2)
    assert "it must be built in" in said(capsys, "trust", "nobody", status=2)
