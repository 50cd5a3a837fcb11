"""The map of two dials that a visitor asks for: computed once, stopped, refused, and for a recording."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from engine.analysis import gallery
from engine.errors import ParameterError
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.trace.dial_grid_json import dial_grid_from_dict
from playground.inspect import dial_grid, map_store
from playground.inspect.dial_map import MAP_JOBS
from playground.jobs.registry import JOBS
from playground.storage.database import Database
from playground.storage.journal import Journal
from playground.storage.run_store import RunStore
from tests.helpers.asking import kept
from tests.helpers.patience import PATIENCE_S


@pytest.fixture
def run():
    params = {"max_new_tokens": 2, "top_k": 5, "temperature": 0.8, "top_p": 0.9}
    made = kept(DecodeRequest("sampling", prompt="The dog", params=params, seed=4))
    LOGITS_CACHE.put("gridded", made)
    yield made
    dial_grid._GRIDS.forget()


def ask(**more):
    asked = {"action": "dial_grid", "run": "gridded", "dial": "temperature", "second": "top_p"}
    return dial_grid.act({**asked, **more})


def test_a_run_has_the_map_of_two_dials_once(run, monkeypatch):
    answer = ask()
    found = dial_grid_from_dict(answer["grid"])
    written = [step.emit[0] for step in run.steps]
    assert list(found.text_at(0.8, 0.9).token_ids) == written
    assert (found.value, found.second_value) == (0.8, 0.9)
    edges = answer["view"]["edges"]
    assert len(edges) == len(found.cells)
    for (left, right), cell in zip(edges, found.cells, strict=True):
        assert left <= cell.low <= cell.high <= right
    assert [one["tokens"] for one in answer["view"]["figures"]] == [
        len(text.token_ids) for text in found.texts
    ]
    monkeypatch.setattr(dial_grid, "map_two_sliders", lambda *a, **k: pytest.fail("again"))
    assert ask() == answer


def open_journal(path, process):
    return Journal(RunStore(Database(str(path), process), 600, 10_000_000))


def test_a_map_is_there_after_a_restart_unless_its_version_is_another(run, monkeypatch, tmp_path):
    monkeypatch.setattr(map_store, "JOURNAL", open_journal(tmp_path / "journal.db", "one"))
    found = ask()
    map_store.JOURNAL.close(PATIENCE_S)
    # Only what the journal has is left.
    monkeypatch.setattr(dial_grid, "find_run", lambda payload: None)
    monkeypatch.setattr(map_store, "JOURNAL", open_journal(tmp_path / "journal.db", "two"))
    dial_grid._GRIDS.forget()
    assert ask() == found
    assert "no longer" in ask(run="other")["refused"]
    assert "no longer" in ask(second="top_k")["refused"]
    dial_grid._GRIDS.forget()
    newer = dataclasses.replace(dial_grid._GRIDS._form, schema="decoding-dial-grid/2")
    monkeypatch.setattr(dial_grid._GRIDS, "_form", newer)
    assert "no longer" in ask()["refused"]


def test_a_stopped_map_says_so(run, monkeypatch):
    whole = dial_grid.map_two_sliders

    def stopped(*args, cancelled, **more):
        for found in whole(*args, cancelled=cancelled, **more):
            JOBS.stop("mine")
            yield found

    monkeypatch.setattr(dial_grid, "map_two_sliders", stopped)
    assert ask(press="mine") == {"stopped": True}
    assert dial_grid._GRIDS.find("gridded", "temperature", "top_p") is None


def test_it_takes_the_places_of_maps_of_one_dial(run):
    with JOBS.run(MAP_JOBS), JOBS.run(MAP_JOBS):
        assert ask() == {"later": True}


def test_what_has_no_map_is_refused(run):
    assert "no longer" in ask(run="gone")["refused"]
    with pytest.raises(ParameterError, match="second"):
        ask(second="seed")
    params = {"max_new_tokens": 2, "num_return_sequences": 2}
    LOGITS_CACHE.put("two", kept(DecodeRequest("sampling", prompt="The dog", params=params)))
    assert "one sequence" in ask(run="two")["refused"]


def test_a_recorded_run_brings_its_map_and_one_without_is_computed(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        dial_grid, "map_two_sliders", lambda request, *a, **k: asked.append(request) or iter(())
    )
    trace = gallery.open_entry("sampling-1.json.gz")
    found = dial_grid_from_dict(ask(run="any", entry="sampling-1")["grid"])
    length = found.steps
    assert found.seed == trace.seed
    own = found.text_at(trace.config["temperature"], trace.config["top_p"] or 1.0)
    assert own.token_ids == trace.outputs[0].token_ids[:length]
    assert not asked
    assert ask(run="any", entry="sampling-1", second="top_k") == {"stopped": True}
    assert list(asked[0].input_ids) == list(trace.prompt_ids)
    assert asked[0].seed == trace.seed
    with pytest.raises(ParameterError, match="sampled run"):
        ask(entry="greedy-1")


def test_every_sampled_recording_on_the_embedded_model_has_its_map_of_two_dials():
    own = [entry for entry, _ in gallery.mapped_runs() if entry.model is None]
    assert own, "the gallery has sampled runs"
    missing = [e.name for e in own if not gallery.find_dial_grid(e, *gallery.GRID_DIALS)]
    assert not missing, "compute them: python -m engine gallery --dial-maps"
