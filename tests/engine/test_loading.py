"""What is in memory: a model is loaded once, whoever asks, and stays as long as a run uses it."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import DecodeRequest, LoadedModel, decode
from engine.models import loading
from engine.sources.source import Source
from engine.trace.events import Finished, Loading
from tests.helpers.models import fresh_model
from tests.helpers.patience import comes_true, wait_for


@pytest.fixture
def loads(monkeypatch):
    """Return the names that are loaded; nothing is in memory before."""
    names = []

    def load(source, key, folder, revision):
        del source, folder, revision
        names.append(key[0])
        return LoadedModel(fresh_model("llama"), None, key[0])

    monkeypatch.setattr(loading, "_CACHE", OrderedDict())
    monkeypatch.setattr(loading, "_load_model", load)
    return names


class Counted:
    """A lock that counts those who have asked for it."""

    def __init__(self):
        self.lock, self.asked = threading.Lock(), 0

    def __enter__(self):
        self.asked += 1
        self.lock.acquire()

    def __exit__(self, *raised):
        self.lock.release()


def test_who_comes_while_a_model_loads_gets_the_same_one(loads, monkeypatch):
    right, begun, go_on, lock = loading._load_model, threading.Event(), threading.Event(), Counted()

    def slow(*arguments):
        loaded = right(*arguments)
        begun.set()
        wait_for(go_on)
        return loaded

    monkeypatch.setattr(loading, "_load_model", slow)
    monkeypatch.setattr(loading, "_LOAD_LOCK", lock)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(loading.load, "storyteller")
        wait_for(begun)
        second = pool.submit(loading.load, "storyteller")
        comes_true(lambda: lock.asked == 2 or len(loads) == 2)
        go_on.set()
    assert first.result() is second.result()
    assert loads == ["storyteller"]


def test_a_model_in_use_is_not_dropped_for_another(loads, monkeypatch):
    one = dataclasses.replace(loading.SETTINGS, max_loaded_models=1)
    monkeypatch.setattr(loading, "SETTINGS", one)
    first = loading.load("storyteller")
    with loading.pin_models(first):
        loading.load("storyteller-draft")
        assert loading.get_cached_model(Source.parse("storyteller")) is first
    loading.load("foreign-draft")
    assert [name for name, *_ in loading._CACHE] == ["foreign-draft"]
    assert loads == ["storyteller", "storyteller-draft", "foreign-draft"]


def test_a_run_learns_which_model_left_for_its_own(monkeypatch):
    monkeypatch.setattr(loading, "_CACHE", OrderedDict())
    one = dataclasses.replace(loading.SETTINGS, max_loaded_models=1)
    monkeypatch.setattr(loading, "SETTINGS", one)
    first = loading.load("storyteller-draft")
    there, right = [], loading.holding.loading_options

    def options(weights):
        there.append(loading.get_cached_model(Source.parse("storyteller-draft")))
        return right(weights)

    monkeypatch.setattr(loading.holding, "loading_options", options)
    request = DecodeRequest("greedy", "foreign-draft", "Once", params={"max_new_tokens": 1})
    *events, last = decode(request)
    assert isinstance(last, Finished)
    assert there == [None], "both were in memory at once"
    told = [event for event in events if isinstance(event, Loading)]
    assert [event.left_memory for event in told] == [(), (first.name,)]
    # Whoever comes later, and finds it there, is told nothing.
    assert not any(isinstance(event, Loading) for event in decode(request))
