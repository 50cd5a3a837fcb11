"""The gallery that ships is that of the presets as they are, and the command that makes it."""

from __future__ import annotations

import json

import pytest

from engine import STRATEGIES, DecodeRequest, load
from engine.after import gallery
from engine.after.likelihood import score_ids
from engine.declare.config import as_dict
from engine.errors import TraceError
from engine.run.request import check, fit_to_model

SHIPPED = gallery.entries()


def preset_of(entry):
    strategy = STRATEGIES[entry.strategy]
    [preset] = [p for p in strategy.presets if f"{strategy.title}: {p.name}" == entry.title]
    return strategy, preset


def test_every_entry_has_its_file_and_every_file_its_entry():
    files = [entry.file for entry in SHIPPED]
    assert files
    assert len(set(files)) == len(files)
    assert {*files, gallery.INDEX} == {path.name for path in gallery.FOLDER.iterdir()}
    assert sum(path.stat().st_size for path in gallery.FOLDER.iterdir()) < 1_500_000


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.file)
def test_an_entry_is_its_preset_as_it_is_now(entry):
    strategy, preset = preset_of(entry)
    assert entry.shows == preset.shows
    trace = gallery.open_entry(entry.file)
    model = preset.model or strategy.default_model
    longest = min(gallery.TOKENS, preset.params.get("max_new_tokens", gallery.TOKENS))
    params = {**preset.params, "max_new_tokens": longest}
    request = DecodeRequest(strategy.name, model, preset.prompt, params=params, seed=preset.seed)
    config = as_dict(fit_to_model(check(request), load(model)).config)
    assert trace.strategy == strategy.name
    assert (trace.prompt, trace.seed) == (preset.prompt, preset.seed)
    assert dict(trace.config) == json.loads(json.dumps(config))
    assert trace.model == load(model).info()
    assert (trace.assistant and trace.assistant.id) == strategy.default_assistant
    assert trace.outputs[0].text
    assert 0 < len(trace.outputs[0].token_ids) <= longest
    # What was emitted is kept beside the best.
    assert {len(step.candidates) for step in trace.steps} <= {
        gallery.CANDIDATES,
        gallery.CANDIDATES + 1,
    }


@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.file)
def test_an_entry_was_written_by_the_model_as_it_is_now(entry):
    trace = gallery.open_entry(entry.file)
    step = trace.steps[0]
    best = step.candidates[0]
    before = [*trace.prompt_ids, *step.emit[:-1]]
    [logprob] = score_ids(load(trace.model.id), before, [best.token_id]).logprobs
    assert best.raw_logprob == pytest.approx(logprob, abs=1e-3)


def test_the_command_makes_a_gallery_of_the_first_presets(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.strategies.STRATEGIES", {"greedy": STRATEGIES["greedy"]})
    (tmp_path / "old-1.json.gz").touch()
    made = gallery.make(tmp_path)
    assert gallery.entries(tmp_path) == made
    presets = STRATEGIES["greedy"].presets[: gallery.PRESETS]
    assert [preset_of(entry)[1] for entry in made] == list(presets)
    assert {path.name for path in tmp_path.iterdir()} == {
        gallery.INDEX,
        *(entry.file for entry in made),
    }
    for entry, preset in zip(made, presets, strict=True):
        trace = gallery.open_entry(entry.file, tmp_path)
        assert (trace.prompt, trace.seed) == (preset.prompt, preset.seed)
        assert trace.outputs[0].text


def test_names_outside_the_gallery_are_refused():
    for name in ("../index.json", "/etc/passwd", "no.json.gz", ""):
        with pytest.raises(TraceError, match="no run named"):
            gallery.open_entry(name)


def test_no_folder_is_an_empty_gallery(tmp_path):
    assert gallery.entries(tmp_path) == []
