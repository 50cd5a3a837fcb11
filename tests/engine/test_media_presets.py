"""The presets for models that look or listen: legal, offered where their model is, each with an example."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.declare.params import build_config
from engine.media import list_examples
from engine.sources.catalogue import CATALOGUE
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from engine.strategies.media_presets import MEDIA_PRESETS
from playground.forms.links import preset_form
from tests.helpers.runs import finished

ALL = [(strategy, preset) for strategy, presets in MEDIA_PRESETS.items() for preset in presets]
NAMED = pytest.mark.parametrize(("strategy", "preset"), ALL, ids=lambda v: getattr(v, "name", v))


def given_to(preset):
    """Return what a preset gives its model, and the kind of that."""
    kind = "image" if preset.image else "audio"
    return getattr(preset, kind), kind


@NAMED
def test_a_preset_is_legal_and_has_a_name_of_its_own(strategy, preset):
    build_config(STRATEGIES[strategy].config, dict(preset.params), strategy)
    names = [p.name for p in (*STRATEGIES[strategy].presets, *MEDIA_PRESETS[strategy])]
    assert len(set(names)) == len(names)
    form = preset_form(strategy, preset)
    assert (form["prompt"], form["image"], form["audio"]) == ("", preset.image, preset.audio)
    assert form["model"] == preset.model
    assert CATALOGUE[preset.model].needs == given_to(preset)[1]


@NAMED
def test_a_preset_writes_a_sentence_of_its_picture_or_sound(strategy, preset):
    if not CATALOGUE[preset.model].available:
        pytest.skip(f"{preset.model} is not on this machine")
    given, kind = given_to(preset)
    name = given.removeprefix("example:")
    assert (name, kind) in {(one.name, one.kind) for one in list_examples()}
    assert incompatibility_reason(STRATEGIES[strategy], Source.parse(preset.model)) is None
    request = DecodeRequest(
        strategy,
        preset.model,
        params=dict(preset.params),
        seed=preset.seed,
        image=preset.image,
        audio=preset.audio,
    )
    trace = finished(request)
    assert trace.media[0].example == name
    assert trace.outputs[0].finish_reason == "eos"
    assert len(trace.outputs[0].text.split()) > 3
