"""Settings go to the hub as they were shown, and whatever stands in the way is one sentence without the token."""

from __future__ import annotations

import json
import os

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import LocalEntryNotFoundError

from engine import DecodeRequest, load
from engine.cli.main import main
from engine.export.generation_config import parse_config
from engine.export.push import COMMIT_MESSAGE
from engine.trace import json_io
from tests.helpers.hub import SHA
from tests.helpers.pushing import FILE, THERE, TO, TOKEN, point
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.server import free_port


@pytest.fixture(scope="module")
def trace():
    params = {"max_new_tokens": 4, "temperature": 0.7, "top_p": 0.9}
    return finished(DecodeRequest("sampling", load("storyteller"), "Once", params=params, seed=3))


@pytest.fixture
def saved(trace, tmp_path):
    path = tmp_path / "run.json.gz"
    json_io.save(trace, path)
    return str(path)


def refused(capsys, *arguments):
    """Push; return the one sentence that says why nothing came of it."""
    assert main(["push", *arguments]) == 2
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err
    return clean(told.err.strip(), most=250)


def test_what_was_shown_is_what_is_uploaded(hub, saved, answers, capsys):
    answers("y\n")
    assert main(["push", saved, "--to", TO]) == 0
    said = capsys.readouterr().out
    [commit] = hub.commits
    text = commit["files"][FILE].decode()
    assert set(commit["files"]) == {FILE}
    assert text in said
    assert '-{"bos_token_id": 1' in said
    assert '+  "temperature": 0.7,' in said
    assert f"/commit/{SHA}" in said
    assert commit["header"]["summary"] == COMMIT_MESSAGE
    # It is made on top of what was compared.
    assert commit["header"]["parentCommit"] == SHA
    assert commit["branch"] == "main"
    fields = json.loads(text)
    assert (fields["bos_token_id"], fields["eos_token_id"]) == (1, [2, 7])
    assert (fields["temperature"], fields["top_p"], fields["do_sample"]) == (0.7, 0.9, True)
    assert parse_config(text).params["temperature"] == 0.7


def test_the_token_goes_to_the_hub_and_nowhere_else(hub, saved, capsys, caplog):
    assert main(["push", saved, "--to", TO, "--yes"]) == 0
    told = capsys.readouterr()
    assert hub.commits[0]["token"] == f"Bearer {TOKEN}"
    assert hub.tokens == {f"Bearer {TOKEN}"}
    assert TOKEN not in told.out + told.err + caplog.text
    assert TOKEN not in str(hub.commits[0]["files"]) + str(hub.commits[0]["header"])


@pytest.mark.parametrize("typed", ["n\n", "\n", "", "maybe\n"])
def test_nothing_is_uploaded_without_a_yes(hub, saved, answers, capsys, typed):
    answers(typed)
    assert main(["push", saved, "--to", TO]) == 1
    assert "Nothing was uploaded." in capsys.readouterr().out
    assert not hub.commits
    assert not [path for path in hub.asked if "/preupload/" in path]


def test_a_pull_request_changes_nothing_by_itself(hub, saved, capsys):
    assert main(["push", saved, "--to", TO, "--create-pr", "--yes"]) == 0
    assert "/discussions/1" in capsys.readouterr().out
    assert "create_pr=1" in hub.commits[0]["query"]
    assert json.loads((hub.folder / TO / FILE).read_text()) == THERE


def test_what_is_there_already_is_not_uploaded_again(hub, saved, capsys):
    assert main(["push", saved, "--to", TO, "--yes"]) == 0
    assert main(["push", saved, "--to", TO, "--yes"]) == 0
    assert "There is nothing to upload" in capsys.readouterr().out
    assert len(hub.commits) == 1


def test_a_repository_without_the_file_gets_one(hub, saved, capsys):
    (hub.folder / TO / FILE).unlink()
    (hub.folder / TO / "config.json").write_text("{}")
    assert main(["push", saved, "--to", TO, "--yes"]) == 0
    assert "--- /dev/null" in capsys.readouterr().out
    assert (hub.folder / TO / FILE).is_file()


def test_a_config_is_uploaded_and_says_what_was_left_out(hub, tmp_path, capsys):
    path = tmp_path / FILE
    path.write_text(json.dumps({"do_sample": True, "temperature": 0.4, "pad_token_id": 5}))
    assert main(["push", str(path), "--to", TO, "--yes"]) == 0
    assert "Left out: pad_token_id belongs to the model" in capsys.readouterr().out
    assert json.loads(hub.commits[0]["files"][FILE])["temperature"] == 0.4
    assert "pad_token_id" not in json.loads(hub.commits[0]["files"][FILE])


def test_what_steers_a_terminal_is_spelled_out(hub, saved, capsys):
    (hub.folder / TO / FILE).write_text('{"evil": "\\u001b[2J",\n"more": "\u202eabc"}')
    main(["push", saved, "--to", TO, "--yes"])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_no_token_is_said_before_the_hub_is_asked(hub, saved, monkeypatch, capsys, tmp_path):
    # One that the hub's own command has left on this machine is not used.
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for value in ("", "  "):
        monkeypatch.setenv("HF_TOKEN", value)
        assert "HF_TOKEN is not set" in refused(capsys, saved, "--to", TO)
    monkeypatch.delenv("HF_TOKEN")
    assert "HF_TOKEN is not set" in refused(capsys, saved, "--to", TO)
    assert not hub.asked


@pytest.mark.parametrize(
    ("status", "said"),
    [(403, "has no right to write"), (401, "does not know the token"), (412, "has changed since")],
)
def test_what_the_hub_refuses_is_one_sentence(hub, saved, capsys, status, said):
    hub.refusals[TO] = status
    assert said in refused(capsys, saved, "--to", TO, "--yes")
    assert not hub.commits


def test_what_is_not_there_is_one_sentence(hub, saved, monkeypatch, capsys):
    assert "does not exist on the hub" in refused(capsys, saved, "--to", "someone/else", "--yes")
    branch = refused(capsys, saved, "--to", TO, "--revision", "nowhere", "--yes")
    assert f"{TO} has no branch nowhere" in branch
    (hub.folder / TO / FILE).write_text("{")
    assert "no valid JSON object" in refused(capsys, saved, "--to", TO, "--yes")
    assert "owner/name" in refused(capsys, saved, "--to", "storyteller", "--yes")
    assert "owner/name" in refused(capsys, saved, "--to", "../../etc", "--yes")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "switched off" in refused(capsys, saved, "--to", TO, "--yes")
    assert not hub.commits


def test_a_hub_that_cannot_be_reached_is_one_sentence(hub, saved, monkeypatch, capsys):
    point(monkeypatch, f"http://127.0.0.1:{free_port()}")
    assert "The hub cannot be reached" in refused(capsys, saved, "--to", TO, "--yes")
    point(monkeypatch, hub.url)
    hub.faults[TO] = (200, {"Content-Type": "text/html"}, b"<!doctype html>Sign in")
    assert "The hub cannot be reached" in refused(capsys, saved, "--to", TO, "--yes")
    hub.faults[TO] = (418, {}, b"{}")
    assert "The hub answered 418" in refused(capsys, saved, "--to", TO, "--yes")


def test_a_file_that_did_not_come_is_not_taken_for_none(hub, saved, monkeypatch, capsys):
    def lost(*args, **kwargs):
        raise LocalEntryNotFoundError("the connection was lost")

    monkeypatch.setattr(HfApi, "hf_hub_download", lost)
    assert "The hub cannot be reached" in refused(capsys, saved, "--to", TO, "--yes")
    assert not hub.commits


def test_a_file_that_holds_no_settings_is_one_sentence(hub, tmp_path, capsys):
    path = tmp_path / "some.json"
    for text, said in (
        ("{", "not valid JSON"),
        ('{"steps": []}', "schema"),
        ('{"custom_generate": "evil/repo"}', "could run code"),
    ):
        path.write_text(text)
        assert said in refused(capsys, str(path), "--to", TO, "--yes")
    assert "cannot be read" in refused(capsys, str(tmp_path / "none.json"), "--to", TO)
    assert not hub.asked


def test_a_trace_and_a_page_know_nothing_of_the_token(hub, trace):
    from playground.inspect import generation_config, questions

    assert TOKEN not in json_io.dumps(trace)
    assert os.environ["HF_TOKEN"] == TOKEN
    assert "push" not in generation_config.ACTIONS
    with pytest.raises(Exception, match="no such question"):
        questions.answer_question({"action": "push"})
