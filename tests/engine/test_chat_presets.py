"""What the conversations say of themselves is so, and the page offers them where their model is."""

from __future__ import annotations

import json

import pytest

from engine import DecodeRequest
from engine.analysis import gallery
from engine.analysis.watermark_detection import detect_trace
from engine.run.request import check_request
from engine.sources.catalogue import CATALOGUE, CatalogueEntry
from engine.strategies import STRATEGIES
from engine.strategies.chat_presets import CHAT_MODEL, CHAT_PRESETS
from engine.trace.details import BeamDetail, DraftDetail
from playground.forms import spec
from tests.helpers.real import real_model
from tests.helpers.runs import finished

ALL = [(strategy, talk) for strategy, talks in CHAT_PRESETS.items() for talk in talks]


def request(strategy, talk):
    return DecodeRequest(
        strategy, CHAT_MODEL, messages=talk.messages, params=dict(talk.params), seed=talk.seed
    )


@pytest.mark.parametrize(("strategy", "talk"), ALL, ids=lambda value: getattr(value, "name", value))
def test_a_conversation_is_legal_and_has_a_name_of_its_own(strategy, talk):
    check_request(request(strategy, talk))
    names = [p.name for p in STRATEGIES[strategy].presets] + [
        t.name for t in CHAT_PRESETS[strategy]
    ]
    assert len(set(names)) == len(names)
    assert CHAT_MODEL in CATALOGUE


@pytest.mark.parametrize("there", [True, False])
def test_the_page_offers_them_where_their_model_is(there, monkeypatch):
    monkeypatch.setattr(
        CatalogueEntry, "available", property(lambda e: e.name != CHAT_MODEL or there)
    )
    for declared in spec.page_spec()["strategies"]:
        talks = [p for p in declared["presets"] if p.get("messages")]
        expected = CHAT_PRESETS.get(declared["name"], ()) if there else ()
        assert [p["name"] for p in talks] == [t.name for t in expected]
        assert all(p["model"] == CHAT_MODEL and p["prompt"] is None for p in talks)


def _asked(trace):
    assert "Paris" in trace.outputs[0].text
    assert trace.outputs[0].finish_reason == "eos"


def _brief(trace):
    [[section]] = trace.thinking.texts
    assert (section.start, section.forced, section.closed) == (0, 12, True)
    thought, _, answer = trace.outputs[0].text.partition("</think>")
    assert not thought.rstrip().endswith(".")
    assert "scatter" in answer
    assert trace.outputs[0].finish_reason == "eos"


def _stuck(trace):
    assert trace.metrics["rep_3"] > 0.5


def _calm(trace):
    assert trace.metrics["mean_logprob"] > -2.5


def _hot(trace):
    assert trace.metrics["mean_logprob"] < -6


def _copied(trace):
    assert "The quick brown fox jumps over the lazy dog." in trace.outputs[0].text
    assert trace.metrics["forward_passes"] < 0.6 * trace.metrics["new_tokens"]


def _better(trace):
    greedy = trace.details(BeamDetail)[-1][1].greedy
    assert trace.outputs[0].finish_reason == "eos"
    assert trace.outputs[0].score > greedy.score + 0.1


def _from_the_best(trace):
    # One draw with the same seed has less than -2 nats for a token.
    assert trace.outputs[0].score > -1


def _four_ways(trace):
    assert len({output.token_ids[0] for output in trace.outputs}) == 4


def _goes_on(trace):
    assert len(trace.outputs[0].token_ids) == 60
    assert trace.metrics["rep_3"] == 0
    assert trace.metrics["mean_logprob"] < -1


def _lost(trace):
    assert "Paris" not in trace.outputs[0].text


def _kept(trace):
    assert "Paris" in trace.outputs[0].text


def _accepted(trace):
    judged = [
        token.status
        for _, detail in trace.details(DraftDetail)
        for token in detail.tokens
        if token.status != "unverified"
    ]
    return judged.count("accepted") / len(judged)


def _too_early(trace):
    assert _accepted(trace) < 0.1


def _late(trace):
    assert 0.4 < _accepted(trace) < 0.6


def _foreign(trace):
    assert 0.1 < _accepted(trace) < 0.3


def _marked(trace):
    assert detect_trace(trace).verdict.z_score > 5


def _dear(trace):
    assert detect_trace(trace).verdict.prediction
    assert "Paris" not in trace.outputs[0].text


CLAIMS = {
    "Ask a question": _asked,
    "Think, but briefly": _brief,
    "Stuck in a poem": _stuck,
    "An answer, drawn": _calm,
    "The same, too hot": _hot,
    "Copy a text": _copied,
    "An answer better than the greedy one": _better,
    "Drawn, but from the best": _from_the_best,
    "Four answers, four beginnings": _four_ways,
    "The poem goes on": _goes_on,
    "The answer lost": _lost,
    "The answer kept": _kept,
    "A model that cannot be left early": _too_early,
    "Three layers before the end": _late,
    "Drafted by a teller of stories": _foreign,
    "A marked story": _marked,
    "What a mark costs": _dear,
}
"""Name of a conversation -> what its sentence promises, asked of its run."""
RECORDED = [entry for entry in gallery.list_entries() if entry.model == CHAT_MODEL]


def test_every_conversation_promises_something():
    assert sorted(CLAIMS) == sorted(talk.name for _, talk in ALL)


@pytest.mark.by_day("greedy-smollm2-2", "prompt_lookup-smollm2-1", "early_exit-smollm2-2")
@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: entry.name)
def test_what_is_recorded_keeps_its_promise(entry):
    CLAIMS[entry.preset](gallery.open_entry(entry.file))


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.parametrize(("strategy", "talk"), [pytest.param(s, t, id=t.name) for s, t in ALL])
def test_what_they_say_is_so(strategy, talk):
    real_model()
    CLAIMS[talk.name](finished(request(strategy, talk)))


def test_what_is_compared_differs_in_one_thing():
    def alike(strategy, *names, **same):
        talks = [t for t in CHAT_PRESETS[strategy] if t.name in names]
        assert len({(t.asks, t.seed) for t in talks}) == 1
        assert len({json.dumps(dict(t.params) | same) for t in talks}) == 1

    alike("sampling", "An answer, drawn", "The same, too hot", temperature=1)
    alike("dola", "The answer lost", "The answer kept", dola_layers="")
    names = ("A model that cannot be left early", "Three layers before the end")
    alike("early_exit", *names, assistant_early_exit=0)


@pytest.mark.real
@pytest.mark.nightly
def test_without_what_they_show_the_effect_is_not_there():
    real_model()
    costs = next(t for t in CHAT_PRESETS["watermark"] if t.name == "What a mark costs")
    unmarked = {n: v for n, v in costs.params.items() if n != "bias"}
    assert "Paris" in finished(_as("sampling", costs, unmarked)).outputs[0].text
    best = CHAT_PRESETS["beam_sampling"][0]
    drawn = finished(_as("sampling", best, {"max_new_tokens": 24, "top_k": 0}))
    assert drawn.metrics["mean_logprob"] < -2
    [four] = CHAT_PRESETS["diverse_beam_search"]
    plain = finished(
        _as("beam_search", four, {"max_new_tokens": 8, "num_beams": 4, "num_return_sequences": 4})
    )
    assert len({output.token_ids[0] for output in plain.outputs}) == 1


def _as(strategy, talk, params):
    return DecodeRequest(
        strategy, CHAT_MODEL, messages=talk.messages, params=params, seed=talk.seed
    )
