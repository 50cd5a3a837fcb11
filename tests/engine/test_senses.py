"""The presets for a model that looks: legal, offered where their model is, and each looks at an example."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.declare.params import build
from engine.media import list_examples
from engine.models.catalogue import CATALOGUE
from engine.strategies import STRATEGIES
from engine.strategies.refusal import refusal
from engine.strategies.sights import MODEL, SIGHTS
from playground.links import preset_form
from tests.helpers.runs import finished

ALL = [(strategy, sight) for strategy, sights in SIGHTS.items() for sight in sights]
NAMED = pytest.mark.parametrize(("strategy", "sight"), ALL, ids=lambda v: getattr(v, "name", v))


def is_here() -> bool:
    return MODEL in CATALOGUE and CATALOGUE[MODEL].available


@NAMED
def test_a_preset_is_legal_and_has_a_name_of_its_own(strategy, sight):
    build(STRATEGIES[strategy].config, dict(sight.params), strategy)
    names = [p.name for p in (*STRATEGIES[strategy].presets, *SIGHTS[strategy])]
    assert len(set(names)) == len(names)
    form = preset_form(strategy, sight)
    assert (form["prompt"], form["image"], form["audio"]) == ("", sight.image, None)
    assert form["model"] == MODEL


@NAMED
@pytest.mark.skipif(not is_here(), reason="the captioner is not on this machine")
def test_a_preset_writes_a_sentence_of_its_picture(strategy, sight):
    assert sight.image.removeprefix("example:") in {one.name for one in list_examples()}
    assert refusal(STRATEGIES[strategy], MODEL) is None
    request = DecodeRequest(
        strategy, MODEL, params=dict(sight.params), seed=sight.seed, image=sight.image
    )
    trace = finished(request)
    assert trace.media[0].example == sight.image.removeprefix("example:")
    assert trace.outputs[0].finish_reason == "eos"
    assert len(trace.outputs[0].text.split()) > 3
