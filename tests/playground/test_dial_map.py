"""The map under a dial: computed for a recent run, kept, bounded, and shipped with recorded runs."""

from __future__ import annotations

import gzip
import json
import threading

import pytest

from engine import DecodeRequest
from engine.analysis import gallery
from engine.errors import Cancelled, ParameterError
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.run.scheduler import RUN_QUEUE
from engine.strategies import STRATEGIES
from engine.trace.dial_map_json import dial_map_from_dict, load_dial_map
from playground.inspect import dial_map, map_store
from playground.jobs.registry import JOBS
from playground.storage.database import Database
from playground.storage.journal import Journal
from playground.storage.run_store import RunStore
from playground.tabs import recorded_runs
from tests.helpers.asking import kept
from tests.helpers.patience import PATIENCE_S


@pytest.fixture
def run():
    params = {"max_new_tokens": 4, "top_k": 20, "temperature": 0.8}
    made = kept(DecodeRequest("sampling", prompt="The dog", params=params, seed=4))
    LOGITS_CACHE.put("mapped", made)
    yield made
    dial_map._MAPS.forget()


def ask(**more):
    return dial_map.act({"action": "dial_map", "run": "mapped", "dial": "temperature", **more})


def test_a_run_has_the_map_of_its_dial_once(run, monkeypatch):
    found = dial_map_from_dict(ask()["map"])
    written = [step.emit[0] for step in run.steps]
    assert list(found.interval_at(0.8).token_ids) == written
    assert (found.low, found.high) == (0.01, 3.0)
    monkeypatch.setattr(dial_map, "map_slider", lambda *a, **k: pytest.fail("computed again"))
    assert dial_map_from_dict(ask()["map"]) == found


def open_journal(path, process):
    return Journal(RunStore(Database(str(path), process), 600, 10_000_000))


def forget_run(monkeypatch):
    """Leave only what the journal has, as after a restart."""
    dial_map._MAPS.forget()
    monkeypatch.setattr(dial_map, "find_run", lambda payload: None)


def test_a_map_is_there_after_a_restart_and_for_its_own_run_and_dial_only(
    run, monkeypatch, tmp_path
):
    monkeypatch.setattr(map_store, "JOURNAL", open_journal(tmp_path / "journal.db", "one"))
    found = ask()
    map_store.JOURNAL.close(PATIENCE_S)
    forget_run(monkeypatch)
    monkeypatch.setattr(map_store, "JOURNAL", open_journal(tmp_path / "journal.db", "two"))
    assert ask() == found
    assert "no longer" in ask(run="other")["refused"]
    assert "no longer" in ask(dial="top_p")["refused"]


def test_a_map_that_is_too_long_is_only_in_memory(run, monkeypatch, tmp_path):
    monkeypatch.setattr(map_store, "JOURNAL", open_journal(tmp_path / "journal.db", "one"))
    monkeypatch.setattr(map_store, "_MAX_STORED_CHARS", 100)
    assert ask() == ask()
    forget_run(monkeypatch)
    assert "no longer" in ask()["refused"]


def test_a_page_asks_later_while_others_are_computed(run, monkeypatch):
    with JOBS.run(dial_map.MAP_JOBS), JOBS.run(dial_map.MAP_JOBS):
        assert ask() == {"later": True}


def test_a_newer_question_ends_one_that_waits_for_an_empty_queue(run):
    ended = threading.Event()

    def wait():
        try:
            assert ask(press="one") == {"later": True}
        except Cancelled:
            pass
        ended.set()

    with RUN_QUEUE.open_ticket(threading.Event()) as place, place.release_turn():
        thread = threading.Thread(target=wait)
        thread.start()
        while JOBS.find("one") is None:
            ended.wait(0.01)
        JOBS.stop("one")
        thread.join()
    assert ended.is_set()


def test_what_has_no_map_is_refused(run):
    assert "no longer" in ask(run="gone")["refused"]
    with pytest.raises(ParameterError, match="dial"):
        ask(dial="seed")
    params = {"max_new_tokens": 2, "num_return_sequences": 2}
    LOGITS_CACHE.put("two", kept(DecodeRequest("sampling", prompt="The dog", params=params)))
    assert "one sequence" in ask(run="two")["refused"]


@pytest.mark.nightly
def test_every_sampled_recording_on_the_embedded_model_has_its_maps():
    names = {entry.name for entry, _ in gallery.mapped_runs() if entry.model is None}
    assert {"sampling-1", "sampling-2", "sampling-3"} <= names
    assert not names & {"sampling-4", "sampling-5", "sampling-6"}, "three texts, XTC and Mirostat"
    wanted = {(name, dial) for name in names for dial in STRATEGIES["sampling"].dials}
    assert wanted <= {(entry.name, dial) for entry, dial in gallery.list_dial_maps()}, (
        "compute them: python -m engine gallery --dial-maps"
    )
    for name, dial in wanted:
        sent = json.loads(gzip.decompress(recorded_runs.gzipped_json(f"{name}.{dial}")))
        found = dial_map_from_dict(sent["map"])
        assert sent["view"]["two_dials_s"] is None, "it brings the map of two dials"
        assert found == load_dial_map(gallery.dial_map_path(name, dial).read_bytes())
        trace = gallery.open_entry(f"{name}.json.gz")
        assert found.interval_at(trace.config[dial]).token_ids == trace.outputs[0].token_ids
