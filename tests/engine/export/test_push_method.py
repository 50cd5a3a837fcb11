"""A method goes to the hub as it was shown, and nothing of its folder but its code and its README."""

from __future__ import annotations

import pytest

from engine.cli.main import main
from tests.helpers.methods import PLAIN, write_method
from tests.helpers.pushing import TO, TOKEN
from tests.helpers.sentences import clean

README = "---\ntags:\n- custom_generate\n---\n# Mine\n"


@pytest.fixture
def folder(tmp_path):
    made = write_method(tmp_path / "mine", PLAIN, readme=README, rule="LIMIT = 3\n")
    (made / "secret.txt").write_text("not for others")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def test_what_was_shown_is_what_is_uploaded(hub, folder, answers, capsys):
    answers("y\n")
    assert main(["method", "push", str(folder), "--to", TO]) == 0
    said = capsys.readouterr()
    [commit] = hub.commits
    assert {path: text.decode() for path, text in commit["files"].items()} == {
        "README.md": README,
        "custom_generate/generate.py": PLAIN,
        "custom_generate/rule.py": "LIMIT = 3\n",
    }
    assert "This would change 3 files of someone/tiny, branch main:" in said.out
    assert all(f"+{line}" in said.out for line in ("LIMIT = 3", "# Mine", "import torch"))
    assert TOKEN not in said.out + said.err


def test_only_what_has_changed_goes_again(hub, folder, capsys):
    push = ["method", "push", str(folder), "--to", TO, "--yes"]
    assert main(push) == 0
    assert main(push) == 0
    assert "There is nothing to upload" in capsys.readouterr().out
    (folder / "custom_generate" / "rule.py").write_text("LIMIT = 4\n")
    assert main(push) == 0
    assert "-LIMIT = 3\n+LIMIT = 4" in capsys.readouterr().out
    assert [set(commit["files"]) for commit in hub.commits[1:]] == [{"custom_generate/rule.py"}]


def test_nothing_is_uploaded_without_a_yes(hub, folder, answers, capsys):
    answers("no\n")
    assert main(["method", "push", str(folder), "--to", TO]) == 1
    assert "Nothing was uploaded." in capsys.readouterr().out
    assert not hub.commits


def test_an_obstacle_is_one_sentence(hub, folder, capsys):
    def refused(to):
        assert main(["method", "push", str(folder), "--to", to]) == 2
        return clean(capsys.readouterr().err.strip(), most=250)

    assert refused("someone/none").startswith("someone/none does not exist on the hub")
    assert (
        refused("nobody") == "--to = 'nobody' is not allowed: it must be a hub id like owner/name."
    )
    (folder / "README.md").write_text("# Mine\n")
    assert refused(TO) == "README.md of mine lacks the tag custom_generate in its front matter."
    assert not hub.commits
