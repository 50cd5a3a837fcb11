"""Loops that left transformers, exported as folders: run shut in, they give the tokens of their own tabs."""

from __future__ import annotations

import pytest

from engine import DecodeRequest, load
from engine.declare.params import params_of
from engine.export.plan import plan_export
from engine.sandbox.folder import read_method
from engine.sandbox.trust import trust_code
from engine.strategies.custom import CustomConfig
from tests.helpers.exported import written
from tests.helpers.runs import finished

PROMPT = "Once upon a time, there was"
RECIPES = {
    "contrastive_search": {"top_k": 4, "penalty_alpha": 0.6},
    "dola": {"dola_layers": "high"},
    "diverse_beam_search": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0},
    "beam_search": {"num_beams": 3, "force_words_ids": [[40, 41], [21]]},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Export every recipe, and confirm its code."""
    place, model = tmp_path_factory.mktemp("recipes"), load("storyteller")
    found = {}
    for name, params in RECIPES.items():
        asked = {"max_new_tokens": 8, **params}
        trace = finished(DecodeRequest(name, model, PROMPT, params=asked, seed=5))
        folder = written(trace, place / name).parent / plan_export(trace).folder_name
        trust_code(read_method(folder).sha256)
        found[name] = (trace, folder, asked)
    return found


@pytest.mark.by_day("diverse_beam_search", "beam_search")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_the_tokens_and_the_record_of_its_tab(made, name):
    trace, folder, asked = made[name]
    params = {"do_sample": False, "method": str(folder), **asked}
    again = finished(DecodeRequest("custom", prompt=PROMPT, params=params, seed=5))
    assert [o.token_ids for o in again.outputs] == [o.token_ids for o in trace.outputs]
    # It knows of the record, so its own is the whole one: candidates, details, everything but the clock.
    assert [(s.keep, s.emit, s.candidates, s.detail, s.forward_passes) for s in again.steps] == [
        (s.keep, s.emit, s.candidates, s.detail, s.forward_passes) for s in trace.steps
    ]
    assert again.notes == ()
    assert again.config["arguments"].keys() == asked.keys() - params_of(CustomConfig).keys()
