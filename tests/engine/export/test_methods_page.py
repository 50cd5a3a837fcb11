"""The page about custom methods keeps its word: its commands run, and the checks are those it lists."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.sandbox.folder import read_method
from engine.sandbox.method_lookup import find_method
from engine.sandbox.method_store import CONFIRMED, PINS
from engine.sandbox.method_templates import list_templates, own_methods_folder
from engine.sandbox.trust import is_trusted
from engine.settings import Settings
from tests.helpers.methods import set_for_methods
from tests.helpers.pushing import TO

PAGE = (Path(__file__).parents[3] / "docs" / "methods.md").read_text()
COMMANDS = [
    shlex.split(line)[3:]
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.nightly
def test_a_reader_comes_from_nothing_to_a_published_method(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    set_for_methods(monkeypatch, tmp_path / "kept")
    more = {"new": [], "check": ["--json"], "push": ["--yes"], "list": [], "search": [], "show": []}
    more["custom"] = []
    for command in COMMANDS:
        if command[1] == "trust":
            assert not is_trusted(find_method(command[2]))
            more["trust"] = ["--yes", "--sha256", read_method(command[2]).sha256]
        wanted = [TO if word == "owner/my_method" else word for word in command]
        assert main([*wanted, *more[command[1]]]) == 0, capsys.readouterr().out
    ran = next(command for command in COMMANDS if command[0] == "run")
    assert "penalty=2.0" in ran
    assert is_trusted(find_method("./my_method"))
    code = {"custom_generate/generate.py", "custom_generate/requirements.txt"}
    assert set(hub.commits[0]["files"]) == {"README.md", *code}
    checks = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    table = PAGE.partition("| line |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| ([\w ]+?) \|", table, re.MULTILINE)
    assert [check["what"] for check in checks] == listed
    assert {check["result"] for check in checks} <= {"passed", "noted"}
    assert all((tmp_path / "my_method" / name).is_file() for name in ("try.py", "README.md"))
    # There is one already, and nothing of it is lost.
    assert main(["method", "new", "my_method"]) == 2
    assert "my_method is there already; nothing was written." in capsys.readouterr().err


@pytest.mark.nightly
def test_the_python_of_the_page_runs(capsys):
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "methods.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith(find_method("mirostat").method.sha256)


def test_the_templates_are_those_that_there_are():
    assert all(f"`{name}`" in PAGE for name in list_templates())


def test_the_files_and_settings_are_those_that_there_are():
    assert all(f"`{name}`" in PAGE for name in (PINS, CONFIRMED, own_methods_folder().name))
    named = {f"PLAYGROUND_{field.name.upper()}" for field in fields(Settings)}
    assert {*re.findall(r"PLAYGROUND_[A-Z_]*[A-Z]", PAGE)} <= named
