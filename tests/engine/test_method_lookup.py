"""A method is found by its name: along with the playground, in a folder, or on the hub, where it is pinned."""

from __future__ import annotations

import json
import shutil
import threading

import pytest
from huggingface_hub import constants

from engine.cli.main import main
from engine.errors import Cancelled, MethodError
from engine.models import hub_lookup
from engine.sandbox import method_lookup
from engine.sandbox.catalogue import RECIPES
from engine.sandbox.folder import MAX_BYTES, MAX_FILES
from engine.sandbox.hub_search import TAG, HubMethod, search_hub_methods
from engine.sandbox.method_lookup import FOLDER, HUB, SHIPPED, find_method, list_offers, pin_commit
from engine.sandbox.method_store import PINS, methods_folder
from engine.sandbox.method_templates import create_method, list_templates, own_methods_folder
from engine.sandbox.requirements import describe_missing_packages
from engine.strategies import STRATEGIES
from tests.helpers.hub import SHA, asked, kept_files
from tests.helpers.methods import PLAIN, set_for_methods, write_method
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.sentences import clean

NAME = "someone/mine"
OTHER = "f" * 40
README = (
    "---\ntags:\n- custom_generate\n---\n\n# mine\n\n![x](y)\n\nAlways the likeliest. And more.\n"
)


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Keep methods in a folder of the test; return it."""
    set_for_methods(monkeypatch, tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Serve a model repository with a method of its own; nothing else can be reached."""
    folder = write_method(tmp_path / "hub" / NAME, PLAIN, readme=README, rule="LIMIT = 3\n")
    for name in ("config.json", "model.safetensors", "modeling_evil.py", "try.py"):
        (folder / name).write_text("{}")
    with asked(tmp_path / "hub", monkeypatch) as served:
        yield served


def changed(hub, commit=OTHER):
    """Have the hub's main be another commit, with another method."""
    state = hub.folder / "states" / commit
    write_method(state, f"# anew\n{PLAIN}")
    hub.tags["main"], hub.states[commit] = commit, state


def refusal(name):
    with pytest.raises(MethodError) as raised:
        find_method(name)
    return clean(str(raised.value), most=500)


def test_a_shipped_method_is_found_and_offered():
    for name, folder in list_templates().items():
        found = find_method(name)
        assert (found.name, found.source, found.revision) == (name, SHIPPED, None)
        assert found.method.name == folder.name
        assert list_offers()[name].told.endswith(".")
    assert list_offers()["mirostat"].kind == "shipped"
    assert list_offers()["draft"].kind == "template"


def test_the_recipes_name_a_tab_that_there_is():
    for name, recipe in RECIPES.items():
        assert recipe.tab in STRATEGIES
        assert (list_offers()[name].kind, list_offers()[name].tab) == ("recipe", recipe.tab)


def test_a_method_of_the_hub_is_fetched_once_without_anything_else(hub, kept):
    found = find_method(NAME)
    assert (found.name, found.source, found.revision) == (NAME, HUB, SHA)
    assert found.method.name == "mine"
    wanted = {"README.md", "custom_generate/generate.py", "custom_generate/rule.py"}
    assert set(hub.files()) == set(found.method.files) == wanted
    place = kept / "hub" / "someone" / SHA / "mine"
    assert {str(place / path) for path in wanted} == set(kept_files(kept / "hub"))
    asked_so_far = len(hub.asked)
    assert find_method(NAME) == found
    assert len(hub.asked) == asked_so_far, "what is on the machine was asked for again"


def test_a_name_keeps_meaning_what_it_was_first_fetched_at(hub, kept, monkeypatch):
    first = find_method(NAME)
    changed(hub)
    assert find_method(NAME).revision == SHA
    shutil.rmtree(kept / "hub")
    assert find_method(NAME).method == first.method, "also where its files have to come again"
    # Another revision is what was asked for, and changes nothing for the name alone.
    newer = find_method(f"{NAME}@main")
    assert (newer.revision, find_method(NAME).revision) == (OTHER, SHA)
    assert newer.method.sha256 != first.method.sha256
    pin_commit(newer)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert [find_method(f"{NAME}{at}").revision for at in ("", "@main", f"@{SHA}")] == [
        OTHER,
        OTHER,
        SHA,
    ]
    assert json.loads((kept / PINS).read_text()) == {NAME: OTHER, f"{NAME}@main": OTHER}


def test_pins_that_cannot_be_read_are_made_again(hub, kept):
    find_method(NAME)
    for content in (b"{", b"[1]", b"\xff", b"[" * 90_000, b'{"someone/mine": "../../etc"}'):
        (kept / PINS).write_bytes(content)
        assert find_method(NAME).revision == SHA
    (kept / PINS).unlink()
    assert find_method(NAME).revision == SHA
    assert json.loads((kept / PINS).read_text()) == {NAME: SHA}


def test_an_obstacle_is_one_sentence(hub, tmp_path, monkeypatch):
    (hub.folder / "someone" / "plain").mkdir()
    assert refusal("someone/plain") == (
        "someone/plain is no custom generation method: it has no custom_generate/generate.py."
    )
    assert "someone/none does not exist on the hub, or is private." in refusal("someone/none")
    assert f"{NAME} has no revision v9 on the hub" in refusal(f"{NAME}@v9")
    hub.about[NAME] = {"gated": "manual"}
    assert "is gated: ask for access" in refusal(NAME)
    hub.about.clear()
    assert "there is no such folder" in refusal(str(tmp_path / "none"))
    assert "there is no such folder" in refusal("./none")
    assert "there is no such folder" in refusal("~nobody-of-that-name/x")
    assert "has no custom_generate/generate.py" in refusal(str(tmp_path))
    assert "cannot be read" in refusal("/" + "x" * 5000)
    for name in ("nobody", "", "a b/c", "a/../b", "some\0one", None, 5, ["mirostat"]):
        assert "it must be built in (" in refusal(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert refusal(NAME) == f"{NAME} is not on this machine and the hub is switched off."
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "cannot be reached; built-in methods still work." in refusal(NAME)


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({"large": "#" * MAX_BYTES}, "mine is too large"),
        ({f"part_{n}": "" for n in range(MAX_FILES)}, "mine is too large"),
        ({"a b": ""}, "'custom_generate/a b.py'; the files of a method must have plain names"),
    ],
    ids=["bytes", "files", "name"],
)
def test_what_a_method_cannot_consist_of_is_refused_before_anything_comes(hub, kept, beside, says):
    shutil.rmtree(hub.folder / NAME)
    write_method(hub.folder / NAME, PLAIN, **beside)
    assert says in refusal(NAME)
    assert hub.files() == []
    assert kept_files(kept) == []


def test_other_bytes_than_the_hub_announced_are_refused(hub, kept):
    hub.changed = {"generate.py"}
    assert "What came as custom_generate/generate.py is not the file" in refusal(NAME)
    hub.changed.clear()
    assert find_method(NAME).revision == SHA


def test_nobody_has_to_wait_for_a_hub_that_does_not_answer(hub, kept, monkeypatch):
    hub.stall = True
    cancelled, ended = threading.Event(), []

    def find():
        with pytest.raises(Cancelled):
            find_method(NAME, cancelled)
        ended.append(True)

    waiting = threading.Thread(target=find, daemon=True)
    waiting.start()
    comes_true(lambda: hub.asked)
    cancelled.set()
    comes_true(lambda: ended)
    monkeypatch.setattr(method_lookup, "FETCH_S", 0.2)
    assert "did not answer for someone/mine within 0.2 s" in refusal(NAME)
    assert kept_files(kept / "hub") == []
    assert hub_lookup._LOOKUP_SLOTS._value == 2


def test_a_folder_that_cannot_be_written_is_named(hub, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    set_for_methods(monkeypatch, tmp_path / "file" / "kept")
    assert "PLAYGROUND_METHODS names another folder." in refusal(NAME)


def test_a_folder_is_found_by_its_path(tmp_path, monkeypatch):
    folder = write_method(tmp_path / "here", PLAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(folder), "./here", "~/here"):
        found = find_method(name)
        assert (found.name, found.source, found.revision) == (name, FOLDER, None)
        assert found.method.name == "here"


def test_the_pages_own_methods_are_found_by_their_names():
    assert list_offers().keys() == {*list_templates(), *RECIPES}
    create_method(own_methods_folder() / "mine", "mirostat")
    found = find_method("mine")
    # It is part of the method, and names packages that are here.
    lines = found.method.source("custom_generate/requirements.txt")
    assert {"torch", "transformers"} <= set(lines.splitlines())
    assert describe_missing_packages({}, lines) is None
    assert (found.source, found.method.name) == (FOLDER, "mine")
    assert list_offers()["mine"].kind == "own"
    with pytest.raises(MethodError, match="a built-in method has this name"):
        create_method(own_methods_folder() / "mirostat", "draft")
    # Not even by a folder that somebody put there.
    write_method(own_methods_folder() / "mirostat", PLAIN)
    assert find_method("mirostat").source == SHIPPED
    assert list_offers()["mirostat"].kind == "shipped"


def test_nothing_but_the_list_is_fetched_for_the_public(hub, kept, monkeypatch, tmp_path):
    listed = f"{NAME}@{SHA}#{'0' * 64} someone/other#1"
    create_method(own_methods_folder() / "own_one", "draft")
    folder = write_method(tmp_path / "here", PLAIN)
    monkeypatch.setenv("HF_TOKEN", "hf_told_nobody")
    set_for_methods(monkeypatch, kept, public=True, allowed_methods=listed)
    told = f" or offered here ({NAME}@{SHA})."
    for name in ("someone/other", f"{NAME}@main", *RECIPES, "own_one", str(folder), "./here"):
        assert refusal(name).endswith(told)
    assert not hub.asked
    changed(hub)
    assert [find_method(name).revision for name in (NAME, f"{NAME}@{SHA}")] == [SHA, SHA]
    assert not hub.tokens
    assert not (methods_folder() / PINS).exists()
    assert list_offers().keys() == {*list_templates(), f"{NAME}@{SHA}"}
    assert list_offers()[f"{NAME}@{SHA}"].told == "Always the likeliest."


def test_the_hub_is_searched_for_methods_by_their_tag(hub, monkeypatch, capsys):
    monkeypatch.setattr(hub_lookup, "LOOKUP_TIMEOUT_S", PATIENCE_S)
    for name, downloads in {"a/few": 3, "b/many": 1200, "c/model": 9}.items():
        (hub.folder / name).mkdir(parents=True)
        hub.about[name] = {"tags": [TAG, "x"] if name != "c/model" else [], "downloads": downloads}
    assert search_hub_methods() == [HubMethod("b/many", 1200, 1), HubMethod("a/few", 3, 1)]
    assert search_hub_methods("few") == [HubMethod("a/few", 3, 1)]
    assert main(["method", "search", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["b/many", "a/few"]
    assert main(["method", "search", "nothing"]) == 0
    assert "The hub has no such method." in capsys.readouterr().out

    def refused():
        with pytest.raises(MethodError) as raised:
            search_hub_methods()
        return clean(str(raised.value))

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert refused().endswith("the hub cannot be reached; built-in methods still work.")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert refused() == (
        "The list of the hub's methods is not on this machine and the hub is switched off."
    )
