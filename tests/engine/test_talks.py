"""What the conversations say of themselves is so, and the page offers them where their model is."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from engine.models.catalogue import CATALOGUE, CatalogueEntry
from engine.run.request import check
from engine.strategies import STRATEGIES
from engine.strategies.talks import MODEL, TALKS
from playground import spec
from tests.helpers.real import real_model
from tests.helpers.runs import finished

ALL = [(strategy, talk) for strategy, talks in TALKS.items() for talk in talks]


def request(strategy, talk):
    return DecodeRequest(
        strategy, MODEL, messages=talk.messages, params=dict(talk.params), seed=talk.seed
    )


@pytest.mark.parametrize(("strategy", "talk"), ALL, ids=lambda value: getattr(value, "name", value))
def test_a_conversation_is_legal_and_has_a_name_of_its_own(strategy, talk):
    check(request(strategy, talk))
    names = [p.name for p in STRATEGIES[strategy].presets] + [t.name for t in TALKS[strategy]]
    assert len(set(names)) == len(names)
    assert MODEL in CATALOGUE


@pytest.mark.parametrize("there", [True, False])
def test_the_page_offers_them_where_their_model_is(there, monkeypatch):
    monkeypatch.setattr(CatalogueEntry, "available", property(lambda e: e.name != MODEL or there))
    for declared in spec.spec()["strategies"]:
        talks = [p for p in declared["presets"] if p.get("messages")]
        expected = TALKS.get(declared["name"], ()) if there else ()
        assert [p["name"] for p in talks] == [t.name for t in expected]
        assert all(p["model"] == MODEL and p["prompt"] is None for p in talks)


@pytest.mark.real
def test_what_they_say_is_so():
    real_model()
    [ask] = TALKS["greedy"]
    answer = finished(request("greedy", ask))
    assert "Paris" in answer.outputs[0].text
    assert answer.outputs[0].finish_reason == "eos"
    calm, hot = (finished(request("sampling", talk)) for talk in TALKS["sampling"])
    assert dataclasses.replace(TALKS["sampling"][1], name="", shows="", params={}) == (
        dataclasses.replace(TALKS["sampling"][0], name="", shows="", params={})
    )
    assert calm.metrics["mean_logprob"] > -2.5
    assert hot.metrics["mean_logprob"] < -6
    [copy] = TALKS["prompt_lookup"]
    copied = finished(request("prompt_lookup", copy))
    assert "The quick brown fox jumps over the lazy dog." in copied.outputs[0].text
    assert copied.metrics["forward_passes"] < 0.6 * copied.metrics["new_tokens"]
