"""The page's questions about methods: one sentence each where something is amiss, nothing where anybody comes."""

from __future__ import annotations

import threading

import pytest

from engine.errors import Cancelled, EngineError, MethodError
from engine.models import hub_lookup
from engine.sandbox.method_check import PASSED, Check
from engine.sandbox.method_templates import own_methods_folder
from playground.forms.form import check_method_is_local, form_request
from playground.inspect import method_checks, methods
from playground.inspect.questions import answer_question
from playground.jobs import registry
from tests.helpers.hub import asked as hub_asked
from tests.helpers.methods import PLAIN, set_for_methods, write_method
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.sentences import clean

CODE = "custom_generate/generate.py"
README = "# Mine\n\nIt adds nothing.\n\n| name | kind | what |\n|---|---|---|\n| `n` | int | how many |\n"
WITH_N = PLAIN.replace("generation_config=None,", "generation_config=None, n: int = 3,")


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Keep methods in a folder of the test."""
    set_for_methods(monkeypatch, tmp_path / "kept")


@pytest.fixture
def public(tmp_path, monkeypatch):
    """Be a deployment that anybody may visit."""
    set_for_methods(monkeypatch, tmp_path / "kept", public=True)
    monkeypatch.setattr(methods, "SETTINGS", methods.SETTINGS.__class__(public=True))


def asked(action, **more):
    return answer_question({"action": action, **more})


def made(name="mine", template="next_token"):
    return asked("method_new", name=name, template=template)


def test_what_is_offered_is_listed_in_groups():
    made()
    told = asked("methods")
    groups = list(dict.fromkeys(offer["group"] for offer in told["offers"]))
    assert groups == ["Built in", "Yours", "Templates", "transformers' own, on the hub"]
    by_name = {offer["name"]: offer for offer in told["offers"]}
    assert by_name["mirostat"]["told"].startswith("Sampling that keeps the surprise")
    assert by_name["transformers-community/dola"]["tab"] == "dola"
    assert by_name["mine"]["group"] == "Yours"
    assert "120 seconds and 2 GB" in told["shut_in"]
    assert set(told["starters"]) <= set(by_name)
    assert told["makes"]
    assert told["folder"] == str(own_methods_folder())


def test_methods_of_the_hub_are_searched_and_choosable(tmp_path, monkeypatch):
    (tmp_path / "hub" / "a" / "few").mkdir(parents=True)
    monkeypatch.setattr(hub_lookup, "LOOKUP_TIMEOUT_S", PATIENCE_S)
    with hub_asked(tmp_path / "hub", monkeypatch) as hub:
        hub.about["a/few"] = {"tags": ["custom_generate"], "downloads": 1234}
        [offer] = asked("method_search", press="p")["offers"]
    assert (offer["name"], offer["group"]) == ("a/few", "Found on the hub")
    assert offer["told"] == "The hub counts 1,234 downloads in the last month."


def test_a_barrier_that_this_machine_lacks_is_named(monkeypatch):
    monkeypatch.setattr(methods, "expected_barriers", lambda: ("files", "processes"))
    words = asked("methods")["shut_in"]
    assert "this machine cannot keep it from: the network, signals to other processes." in words


def test_a_folder_is_reported_with_its_code_and_its_arguments(tmp_path):
    folder = write_method(tmp_path / "own", WITH_N, readme=README)
    told = asked("method", name=str(folder))
    assert told["files"][CODE] == WITH_N
    assert list(told["files"]) == [CODE, "README.md"]
    assert told["summary"] == "It adds nothing."
    assert told["arguments"] == [
        {"name": "n", "kind": "int", "default": 3, "required": False, "told": "how many"}
    ]
    assert (told["source"], told["revision"], told["own"]) == ("folder", None, False)
    assert not told["trusted"]
    assert told["sha256"] in clean(told["why_not"])


def test_only_the_code_that_was_shown_is_confirmed(tmp_path):
    folder = write_method(tmp_path / "own", PLAIN)
    shown = asked("method", name=str(folder))
    (folder / CODE).write_text(PLAIN + "# more\n")
    told = asked("method_trust", name=str(folder), sha256=shown["sha256"])
    assert told["changed"]
    assert not told["trusted"]
    assert told["files"][CODE].endswith("# more\n")
    again = asked("method_trust", name=str(folder), sha256=told["sha256"])
    assert again["trusted"]
    assert again["why_not"] == ""
    assert "changed" not in again


def test_a_method_of_the_hub_is_fetched_only_when_somebody_says_so(monkeypatch):
    fetched = []

    def find(name, cancelled=None):
        fetched.append(name)
        raise MethodError("The hub cannot be reached.")

    monkeypatch.setattr(methods, "find_method", find)
    assert asked("method", name="owner/name") == {"name": "owner/name", "to_fetch": True}
    assert fetched == []
    form = {"strategy": "custom", "prompt": "a", "params": {"method": "owner/name"}}
    with pytest.raises(MethodError, match="is not on this machine yet: “Fetch its code”"):
        check_method_is_local(form_request(form))
    with pytest.raises(MethodError, match="cannot be reached"):
        asked("method", name="owner/name", fetch=True)
    assert fetched == ["owner/name"]
    assert (
        check_method_is_local(form_request({**form, "params": {"method": "mirostat"}})).params == {}
    )


def test_one_is_made_changed_broken_and_mended():
    told = made()
    assert told["problem"] == ""
    assert {*told["files"]} == {CODE, "README.md", "custom_generate/requirements.txt"}
    assert asked("method", name="mine")["trusted"]
    before = told["files"][CODE]
    broken = before["text"].replace("import torch", "import import torch", 1)
    line = broken[: broken.index("import import")].count("\n") + 1
    saved = asked("method_save", name="mine", file=CODE, text=broken, before=before["mark"])
    assert saved["problem"] == f"{CODE}, line {line}: invalid syntax."
    assert (
        saved["files"][CODE]["text"] == broken == (own_methods_folder() / "mine" / CODE).read_text()
    )
    with pytest.raises(MethodError, match=f"line {line}: invalid syntax"):
        asked("method", name="mine")
    assert asked("method_files", name="mine")["problem"] == saved["problem"]
    mark = saved["files"][CODE]["mark"]
    mended = asked("method_save", name="mine", file=CODE, text=before["text"] + "\n", before=mark)
    assert mended["problem"] == ""
    assert asked("method", name="mine")["trusted"]


def test_what_something_else_has_written_is_not_overwritten_unseen():
    mark = made()["files"][CODE]["mark"]
    (own_methods_folder() / "mine" / CODE).write_text(PLAIN)
    saved = asked("method_save", name="mine", file=CODE, text="mine", before=mark)
    assert saved["changed"]
    assert saved["files"][CODE]["text"] == PLAIN
    # What was not written here is not confirmed by being looked at.
    assert not asked("method", name="mine")["trusted"]
    assert asked("method_save", name="mine", file=CODE, text=PLAIN + "\n")["problem"] == ""
    assert asked("method", name="mine")["trusted"]


@pytest.mark.parametrize(
    "odd",
    [
        {"action": "method"},
        {"action": "method", "name": 5},
        {"action": "method", "name": "/no/such/folder"},
        {"action": "method", "name": ["mirostat"]},
        {"action": "method_trust", "name": "/no/such/folder", "sha256": "a"},
        {"action": "method_files", "name": "mirostat"},
        {"action": "method_files"},
        {"action": "method_new"},
        {"action": "method_new", "name": "../evil", "template": "draft"},
        {"action": "method_new", "name": "..", "template": "draft"},
        {"action": "method_new", "name": "good", "template": {"a": 1}},
        {"action": "method_new", "name": "mirostat", "template": "draft"},
        {"action": "method_new", "name": "mine", "template": "draft"},
        {"action": "method_save", "name": "mirostat", "file": CODE, "text": ""},
        {"action": "method_save", "name": "mine", "file": "../../pins.json", "text": "{}"},
        {"action": "method_save", "name": "mine", "file": "/etc/passwd", "text": ""},
        {"action": "method_save", "name": "mine", "file": ["a"], "text": ""},
        {"action": "method_save", "name": "mine", "file": CODE, "text": 5},
        {"action": "method_save", "name": "mine", "file": CODE, "text": "\ud800"},
        {"action": "method_save", "name": "mine", "file": CODE, "text": "#" * 1_000_001},
        {"action": "method_check", "name": "mirostat", "press": "a"},
        {"action": "method_check", "name": "mine", "press": "a", "known": -1},
        {"action": "method_check", "name": "mine", "press": "a", "arguments": [1]},
        {"action": "method_check", "name": "mine", "press": "a", "arguments": {"none": 1}},
    ],
)
def test_what_is_no_question_is_one_sentence_and_changes_nothing(odd):
    made()
    before = {path: path.read_bytes() for path in own_methods_folder().rglob("*") if path.is_file()}
    with pytest.raises(EngineError) as caught:
        answer_question(odd)
    clean(str(caught.value))
    assert {
        path: path.read_bytes() for path in own_methods_folder().rglob("*") if path.is_file()
    } == before


def test_a_link_within_a_method_is_not_followed(tmp_path):
    made()
    outside = tmp_path / "outside.md"
    outside.write_text("theirs")
    readme = own_methods_folder() / "mine" / "README.md"
    readme.unlink()
    readme.symlink_to(outside)
    with pytest.raises(MethodError, match="is a link"):
        asked("method_save", name="mine", file="README.md", text="mine")
    assert outside.read_text() == "theirs"


def test_a_check_is_reported_while_it_runs_and_can_be_stopped(monkeypatch):
    made()
    go_on, begun = threading.Event(), []

    def check(folder, arguments, cancelled):
        begun.append((folder, arguments))
        yield Check("source", PASSED, "2 files")
        assert go_on.wait(PATIENCE_S)
        comes_true(cancelled.is_set)
        raise Cancelled

    monkeypatch.setattr(method_checks, "check_method", check)
    given = {"name": "mine", "press": "one", "arguments": {"penalty": 2}}
    told = asked("method_check", **given, known=0)
    assert told == {
        "checks": [{"what": "source", "result": "passed", "told": "2 files"}],
        "over": False,
        "error": "",
    }
    asked("stop", press="one")
    go_on.set()
    assert asked("method_check", **given, known=1) == {
        "checks": [],
        "over": True,
        "error": "Stopped.",
    }
    assert begun == [(own_methods_folder() / "mine", {"penalty": 2.0})]


def test_a_check_that_nobody_listens_to_ends(monkeypatch):
    made()
    monkeypatch.setattr(registry, "SETTINGS", methods.SETTINGS.__class__(unheard_s=0.05))
    monkeypatch.setattr(registry, "current_session", lambda: "gone")
    monkeypatch.setattr(method_checks, "current_session", lambda: "gone")
    ended = threading.Event()

    def check(folder, arguments, cancelled):
        yield Check("source", PASSED, "2 files")
        comes_true(cancelled.is_set)
        ended.set()
        raise Cancelled

    monkeypatch.setattr(method_checks, "check_method", check)
    asked("method_check", name="mine", press="two")
    assert ended.wait(PATIENCE_S)


def test_anybody_sees_listed_code_and_changes_none(public, tmp_path):
    told = asked("methods")
    assert not told["makes"]
    assert told["folder"] == ""
    assert {offer["group"] for offer in told["offers"]} == {"Built in", "Templates"}
    shown = asked("method", name="mirostat")
    assert shown["trusted"]
    assert not shown["can_trust"]
    assert CODE in shown["files"]
    folder = str(write_method(tmp_path / "own", PLAIN))
    for odd in (
        {"action": "method", "name": folder},
        {"action": "method", "name": "owner/name", "fetch": True},
        {"action": "method_search"},
        {"action": "method_trust", "name": "mirostat", "sha256": shown["sha256"]},
        {"action": "method_new", "name": "mine", "template": "draft"},
        {"action": "method_files", "name": "mine"},
        {"action": "method_save", "name": "mine", "file": CODE, "text": ""},
        {"action": "method_check", "name": "mine", "press": "a"},
    ):
        with pytest.raises(MethodError) as caught:
            answer_question(odd)
        clean(str(caught.value))
    assert not own_methods_folder().exists()
