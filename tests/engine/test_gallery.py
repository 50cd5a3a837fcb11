"""The gallery that ships, and the command that makes it."""

from __future__ import annotations

import pytest

from engine import STRATEGIES, gallery
from engine.errors import TraceError


def test_every_strategy_has_a_recorded_run_that_reads_back():
    shipped = gallery.entries()
    assert {entry.strategy for entry in shipped} == set(STRATEGIES)
    size = 0
    for entry in shipped:
        trace = gallery.open_entry(entry.file)
        assert trace.strategy == entry.strategy
        assert trace.steps
        assert trace.outputs[0].text
        size += (gallery.FOLDER / entry.file).stat().st_size
    assert size < 1_500_000


def test_a_preset_is_recorded_as_it_runs():
    trace = gallery.record("greedy", STRATEGIES["greedy"].presets[0])
    assert len(trace.outputs[0].token_ids) <= gallery.TOKENS
    assert len(trace.steps[0].candidates) == gallery.CANDIDATES


def test_names_outside_the_gallery_are_refused():
    for name in ("../index.json", "/etc/passwd", "no.json.gz", ""):
        with pytest.raises(TraceError, match="no run named"):
            gallery.open_entry(name)


def test_no_folder_is_an_empty_gallery(tmp_path):
    assert gallery.entries(tmp_path) == []
