"""The gallery that ships is that of the presets as they are, and the command that makes it."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from engine import STRATEGIES, DecodeRequest, load
from engine.analysis import examples, gallery
from engine.analysis.comparisons import available_presets
from engine.analysis.likelihood import score_ids
from engine.analysis.watermark_detection import detect_trace
from engine.declare.config import config_to_dict
from engine.declare.params import defaults_of
from engine.errors import TraceError
from engine.run.request import check_request, fit_to_model, request_from_trace
from engine.sources.catalogue import CATALOGUE, CatalogueEntry
from engine.strategies import chat_presets
from engine.trace.details import DraftDetail, DraftReport
from engine.trace.filling import FillDetail
from tests.helpers.real import real_model
from tests.helpers.runs import finished
from tests.helpers.strategies import NEXT_TOKEN
from visualizers.draft_timeline.summary import DraftSummary

SHIPPED = gallery.list_entries()
OF_PRESETS = [entry for entry in SHIPPED if entry.model is None]
OF_TALKS = [entry for entry in SHIPPED if entry.model is not None]


def preset_of(entry):
    strategy = STRATEGIES[entry.strategy]
    [preset] = [p for p in strategy.presets if p.name == entry.preset]
    assert entry.title == f"{strategy.title}: {preset.name}"
    return strategy, preset


def talk_of(entry):
    [talk] = [t for t in chat_presets.CHAT_PRESETS[entry.strategy] if t.name == entry.preset]
    model = CATALOGUE[entry.model].title
    assert entry.title == f"{STRATEGIES[entry.strategy].title}: {talk.name} ({model})"
    return talk


def test_every_entry_has_its_file_and_every_file_its_entry():
    files = [entry.file for entry in SHIPPED]
    assert files
    assert len(set(files)) == len(files)
    inside = [path for path in gallery.FOLDER.iterdir() if path.is_file()]
    assert {*files, gallery.INDEX_FILE} == {path.name for path in inside}
    assert sum(path.stat().st_size for path in inside) < 1_300_000
    for folder in (examples.FOLDER, gallery.FOLDER / gallery.DIAL_MAPS):
        assert sum(path.stat().st_size for path in folder.iterdir()) < 250_000


@pytest.mark.by_day(
    "masked_diffusion-2.json.gz", "masked_diffusion-3.json.gz", "masked_diffusion-4.json.gz"
)
@pytest.mark.parametrize("entry", OF_PRESETS, ids=lambda entry: entry.file)
def test_an_entry_is_its_preset_as_it_is_now(entry):
    strategy, preset = preset_of(entry)
    assert (entry.shows, entry.look_at) == (preset.shows, preset.look_at)
    trace = gallery.open_entry(entry.file)
    model = preset.model or strategy.default_model
    # As long as its sentence speaks of: nothing was cut to be recorded.
    longest = preset.params.get("max_new_tokens", gallery.MAX_NEW_TOKENS)
    assert longest <= gallery.MAX_NEW_TOKENS
    request = DecodeRequest(
        strategy.name, model, preset.prompt, params=preset.params, seed=preset.seed
    )
    config = fit_to_model(check_request(request), load(model)).config
    assert trace.strategy == strategy.name
    assert (trace.prompt, trace.seed) == (preset.prompt, preset.seed)
    assert_same_settings(trace, config)
    assert trace.model == load(model).info()
    assert (trace.assistant and trace.assistant.id) == strategy.default_assistant
    kept(trace, longest)


def assert_same_settings(trace, config):
    """A recording lacks the parameters that were added after it: they are at their defaults."""
    now = json.loads(json.dumps(config_to_dict(config)))
    assert dict(trace.config) == {name: now[name] for name in trace.config}
    added = now.keys() - trace.config.keys()
    defaults = defaults_of(type(config))
    assert {name: now[name] for name in added} == {name: defaults[name] for name in added}


def kept(trace, longest):
    assert trace.outputs[0].text
    # No limit of the machine that recorded it ended it early.
    assert trace.notes == ()
    assert 0 < len(trace.outputs[0].token_ids) <= longest
    # What was emitted is kept as well as the best; a custom method may take a token unseen, and a pass of
    # masked diffusion has guesses.
    unseen = {0} if trace.strategy == "custom" or trace.strategy not in NEXT_TOKEN else set()
    counts = {len(step.candidates) for step in trace.steps} - unseen
    assert counts <= {gallery.CANDIDATES, gallery.CANDIDATES + 1}


@pytest.mark.by_day(
    "greedy-smollm2-2.json.gz", "early_exit-smollm2-1.json.gz", "early_exit-smollm2-2.json.gz"
)
@pytest.mark.parametrize("entry", OF_TALKS, ids=lambda entry: entry.file)
def test_an_entry_is_its_conversation_as_it_is_now(entry):
    """Without its model: what was asked, and with which parameters, is in the record."""
    talk = talk_of(entry)
    assert entry.model == chat_presets.CHAT_MODEL
    assert (entry.shows, entry.look_at) == (talk.shows, talk.look_at)
    trace = gallery.open_entry(entry.file)
    assert (trace.strategy, trace.model.id, trace.seed) == (entry.strategy, entry.model, talk.seed)
    assert [{"role": t["role"], "content": t["content"]} for t in trace.messages] == talk.messages
    assert_same_settings(trace, STRATEGIES[entry.strategy].config(**talk.params))
    kept(trace, min(gallery.MAX_NEW_TOKENS, talk.params["max_new_tokens"]))


def test_every_preset_and_every_conversation_is_recorded():
    presets = [(n, p.name) for n, strategy in STRATEGIES.items() for p in strategy.presets]
    talks = [(n, t.name) for n, all_ in chat_presets.CHAT_PRESETS.items() for t in all_]
    assert [(entry.strategy, entry.preset) for entry in OF_PRESETS] == presets
    assert sorted((entry.strategy, entry.preset) for entry in OF_TALKS) == sorted(talks)


@pytest.mark.by_day("greedy-4.json.gz", "speculative-4.json.gz", "masked_diffusion-3.json.gz")
@pytest.mark.parametrize("entry", OF_PRESETS, ids=lambda entry: entry.file)
def test_a_recorded_speed_up_was_measured_on_an_idle_machine(entry):
    trace = gallery.open_entry(entry.file)
    report = getattr(trace.steps[-1].detail, "report", None)
    if not isinstance(report, DraftReport) or not report.plain_tokens:
        return
    summary = DraftSummary(trace)
    *_, last = [summary.add(step) for step in trace.steps]
    assert last["plain"]["why"] == ""
    assert last["plain"]["speed_up"] > 0


@pytest.mark.by_day("greedy-4.json.gz", "speculative-4.json.gz", "greedy-smollm2-2.json.gz")
@pytest.mark.parametrize("entry", SHIPPED, ids=lambda entry: entry.file)
def test_an_entry_opens_at_a_step_where_something_was_decided(entry):
    steps = gallery.open_entry(entry.file).steps
    assert 1 <= entry.look_at <= len(steps)
    step = steps[entry.look_at - 1]
    if isinstance(step.detail, DraftDetail):
        assert step.detail.tokens
    elif isinstance(step.detail, FillDetail):
        assert 0 < len(step.detail.written) < len(step.detail.guesses)
    else:  # two answers or more were in the running
        assert step.entropy > 0.3
        assert step.candidates[0].raw_logprob < math.log(0.95)


def seen(name):
    entry = gallery.find_entry(name)
    trace = gallery.open_entry(entry.file)
    return trace, entry.look_at - 1, trace.steps[entry.look_at - 1]


def test_what_is_opened_is_what_the_sentence_speaks_of():
    # Hot: a rare token got through.
    _, _, step = seen("sampling-2")
    assert next(c.rank for c in step.candidates if c.token_id == step.emit[0]) > 1000
    # The search leaves the greedy path.
    trace, at, step = seen("beam_search-1")
    assert trace.outputs[0].token_ids[at] != step.candidates[0].token_id
    winner = trace.outputs[0].token_ids
    assert winner[:at] == tuple(s.candidates[0].token_id for s in trace.steps[:at])
    # A draft of which much, and one of which nothing was accepted.
    accepted = [
        [token.status for token in seen(name)[2].detail.tokens].count("accepted")
        for name in ("speculative-1", "speculative-2", "prompt_lookup-1", "prompt_lookup-2")
    ]
    assert accepted[0] >= 6
    assert accepted[2] >= 7
    assert accepted[1] == accepted[3] == 0
    # The mark is above the threshold from here on.
    for name in ("watermark-1", "watermark-2"):
        trace, at, _ = seen(name)
        curve = detect_trace(trace).curve
        assert curve[at - 1] < 3
        assert all(z > 3 for z in curve[at:])


def fills_alike(again, recorded):
    """Check that both runs guess and fill alike, whatever the processor: no two places may tie."""
    for now, then in zip(again.steps, recorded.steps, strict=True):
        for guess, before in zip(now.detail.guesses, then.detail.guesses, strict=True):
            assert (guess.position, guess.token_id) == (before.position, before.token_id)
            assert guess.written == before.written
            # Another processor rounds the last digits otherwise.
            for figure in ("p", "entropy"):
                assert getattr(guess, figure) == pytest.approx(getattr(before, figure), abs=1e-3)


@pytest.mark.by_day(
    "speculative-1.json.gz", "prompt_lookup-1.json.gz", "universal_assisted-1.json.gz"
)
@pytest.mark.parametrize(
    "entry",
    [
        *OF_PRESETS,
        *(pytest.param(entry, marks=pytest.mark.real) for entry in OF_TALKS[1:]),
        pytest.param(OF_TALKS[0], marks=pytest.mark.real),
    ],
    ids=lambda entry: entry.file,
)
def test_an_entry_was_written_by_the_model_as_it_is_now(entry):
    trace = gallery.open_entry(entry.file)
    if entry.model is not None and real_model().revision != trace.model.revision:
        pytest.skip("the hub's weights are other ones than those that were recorded")
    if entry.strategy not in NEXT_TOKEN:
        fills_alike(finished(request_from_trace(trace)), trace)
        return
    step = trace.steps[0]
    best = step.candidates[0]
    before = [*trace.prompt_ids, *step.emit[:-1]]
    [logprob] = score_ids(load(trace.model.id), before, [best.token_id]).logprobs
    assert best.raw_logprob == pytest.approx(logprob, abs=1e-3)


@pytest.mark.nightly
def test_the_command_makes_a_gallery_of_the_presets(tmp_path, monkeypatch):
    there(monkeypatch, False)
    presets = STRATEGIES["greedy"].presets[:3]
    greedy = dataclasses.replace(STRATEGIES["greedy"], presets=presets)
    monkeypatch.setattr("engine.strategies.STRATEGIES", {"greedy": greedy})
    (tmp_path / "old-1.json.gz").touch()
    made = gallery.record_gallery(tmp_path)
    assert gallery.list_entries(tmp_path) == made
    assert [preset_of(entry)[1] for entry in made] == list(presets)
    assert {path.name for path in tmp_path.iterdir()} == {
        gallery.INDEX_FILE,
        *(entry.file for entry in made),
    }
    for entry, preset in zip(made, presets, strict=True):
        trace = gallery.open_entry(entry.file, tmp_path)
        assert (trace.prompt, trace.seed) == (preset.prompt, preset.seed)
        assert trace.outputs[0].text


def there(monkeypatch, whether):
    """Say whether the conversations' model is on this machine."""
    known = CatalogueEntry.available.fget
    own = property(lambda entry: whether if entry.name == chat_presets.CHAT_MODEL else known(entry))
    monkeypatch.setattr(CatalogueEntry, "available", own)


def test_what_was_recorded_with_a_model_that_is_not_here_stays(tmp_path, monkeypatch):
    there(monkeypatch, False)
    entry = OF_TALKS[0]
    gallery.write_index([entry], tmp_path)
    (tmp_path / entry.file).write_bytes((gallery.FOLDER / entry.file).read_bytes())
    monkeypatch.setattr(
        "engine.strategies.STRATEGIES", {entry.strategy: STRATEGIES[entry.strategy]}
    )
    told = []
    assert gallery.record_gallery(tmp_path, told.append, talks_only=True) == [entry]
    assert gallery.open_entry(entry.file, tmp_path) == gallery.open_entry(entry.file)
    [sentence] = told
    assert sentence == (
        "SmolLM2 135M Instruct is not on this machine, so conversations with it are not recorded: "
        f"those recorded before stay, 1 of {len(chat_presets.CHAT_PRESETS[entry.strategy])}; "
        "`python -m engine fetch smollm2` brings it."
    )


def test_a_conversation_is_recorded_next_to_earlier_entries(tmp_path, monkeypatch):
    there(monkeypatch, True)
    own = OF_PRESETS[0]
    gallery.write_index([own], tmp_path)
    (tmp_path / own.file).touch()
    (tmp_path / "greedy-smollm2-9.json.gz").touch()
    monkeypatch.setattr("engine.strategies.STRATEGIES", {"greedy": STRATEGIES["greedy"]})
    talk = chat_presets.CHAT_PRESETS["greedy"][0]
    monkeypatch.setattr(chat_presets, "CHAT_PRESETS", {"greedy": (talk,)})
    asked = []

    def instead(strategy, prompt, params, seed, model, messages):
        asked.append((strategy, prompt, params, seed, model, messages))
        return gallery.open_entry(OF_TALKS[0].file)

    monkeypatch.setattr(gallery, "record_run", instead)
    made = gallery.record_gallery(tmp_path, pytest.fail, talks_only=True)
    assert made == gallery.list_entries(tmp_path) == [own, OF_TALKS[0]]
    assert (tmp_path / own.file).stat().st_size == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        gallery.INDEX_FILE,
        *(e.file for e in made),
    }
    assert asked[-1] == (
        "greedy",
        None,
        dict(talk.params),
        0,
        chat_presets.CHAT_MODEL,
        talk.messages,
    )


def check_columns(columns, preset):
    for column, (name, params) in zip(columns, preset.columns, strict=True):
        trace = column.trace
        assert (trace.strategy, trace.prompt, trace.seed) == (name, preset.prompt, preset.seed)
        assert {n: trace.config[n] for n in params} == params
        assert len(column.scores.logprobs) == len(column.pieces) == len(trace.outputs[0].token_ids)
        assert "".join(column.pieces).startswith(trace.outputs[0].text[:20])


def test_the_examples_are_what_their_tabs_begin_with():
    presets = {preset.name: preset for preset in available_presets()}
    recorded = examples.recorded_comparisons()
    assert list(recorded) == list(presets)
    for preset, name in recorded.items():
        compared = examples.load_comparison(name)
        assert compared.preset == preset
        check_columns(compared.columns, presets[preset])
    drawn = examples.load_draws()
    assert [d.seed for d in drawn.draws] == list(range(examples.DRAWS_COUNT))
    assert {len(d.token_ids) for d in drawn.draws} == {examples.DRAWS_TOKENS}
    assert {i for d in drawn.draws for i in d.token_ids} <= set(drawn.pieces)
    twin, marked = examples.load_unmarked_twin(), gallery.open_entry("watermark-1.json.gz")
    assert (twin.prompt_ids, twin.seed) == (marked.prompt_ids, marked.seed)
    assert twin.config["max_new_tokens"] == marked.config["max_new_tokens"]
    assert twin.outputs[0].token_ids != marked.outputs[0].token_ids


@pytest.mark.nightly
def test_the_examples_are_recorded_by_the_command(tmp_path, monkeypatch):
    first = dataclasses.replace(
        available_presets()[0], columns=(("greedy", {"max_new_tokens": 3}),) * 2
    )
    monkeypatch.setattr(examples, "available_presets", lambda: [first])
    monkeypatch.setattr(examples, "DRAWS_COUNT", 3)
    monkeypatch.setattr(examples.taste, "PROMPTS", examples.taste.PROMPTS[:1])
    made = examples.record_examples(tmp_path)
    assert {path.name for path in made} == {
        p.name for p in examples.FOLDER.iterdir() if p.name[:8] != "compare-" or p.name[8] == "1"
    }
    again = examples.load_comparison("compare-1", tmp_path)
    assert [column.trace.outputs[0].token_ids for column in again.columns] == [
        examples.load_comparison("compare-1").columns[0].trace.outputs[0].token_ids[:3]
    ] * 2
    few, all_draws = (examples.load_draws(folder).draws for folder in (tmp_path, examples.FOLDER))
    assert [d.token_ids for d in few] == [d.token_ids for d in all_draws[:3]]
    assert examples.load_unmarked_twin(tmp_path).outputs == examples.load_unmarked_twin().outputs
    [tasted] = examples.load_continuations(tmp_path)["prompts"]
    recorded = examples.load_continuations()["prompts"][0]
    assert tasted["prompt"] == recorded["prompt"]
    assert [text["text"] for text in tasted["texts"]] == [
        text["text"] for text in recorded["texts"]
    ]


def test_names_outside_the_gallery_are_refused():
    for name in ("../index.json", "/etc/passwd", "no.json.gz", ""):
        with pytest.raises(TraceError, match="no run named"):
            gallery.open_entry(name)


def test_no_folder_is_an_empty_gallery(tmp_path):
    assert gallery.list_entries(tmp_path) == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"{}", b'[{"file": 1}]', b"[1]", b"\xff", b"[" * 9999]
)
def test_a_damaged_index_is_an_empty_gallery(tmp_path, content):
    (tmp_path / gallery.INDEX_FILE).write_bytes(content)
    assert gallery.list_entries(tmp_path) == []
