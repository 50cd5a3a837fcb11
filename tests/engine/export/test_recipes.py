"""Loops that left transformers, exported as folders: run shut in, they give the tokens of their own tabs."""

from __future__ import annotations

import pytest

from engine import DecodeRequest, load
from engine.export.plan import plan_of
from engine.methods.child import Child
from engine.methods.folder import read_method
from engine.models.locating import located
from engine.trace.records import replay_ids
from tests.helpers.exported import written
from tests.helpers.methods import run_method
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
    """Export every recipe, and let the processes get ready beside one another."""
    place, model = tmp_path_factory.mktemp("recipes"), load("storyteller")
    found = {}
    for name, params in RECIPES.items():
        asked = {"max_new_tokens": 8, **params}
        trace = finished(DecodeRequest(name, model, PROMPT, params=asked, seed=5))
        folder = written(trace, place / name).parent / plan_of(trace).folder_name
        found[name] = (trace, folder, Child(located("storyteller")[0]))
    yield found
    for _, _, child in found.values():
        child.close()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_the_tokens_and_the_record_of_its_tab(made, name):
    trace, folder, child = made[name]
    plan = plan_of(trace)
    eos = list(trace.eos_token_ids)
    config = {**plan.values, "eos_token_id": eos, "pad_token_id": eos[0]}
    arguments = {**plan.loop_values, "seed": trace.seed}
    assert set(arguments) <= {a.name for a in read_method(folder).arguments} | set(plan.loop_values)
    job = {"ids": [list(trace.prompt_ids)], "config": config, "arguments": arguments, "seed": 0}
    steps, outcome = run_method(folder, job | {"top_candidates": 20}, child)
    new = [row[: len(o.token_ids)] for row, o in zip(outcome.sequences, trace.outputs, strict=True)]
    assert new == [output.token_ids for output in trace.outputs]
    # Beside its beams a search follows the greedy path, which is no part of the price of a step.
    beside = 2 if "beam" in name else 1
    assert outcome.passes == beside * sum(step.forward_passes for step in trace.steps)
    # It knows of the record, so its own is the whole one: candidates, details, everything but the clock.
    assert [(s.keep, s.emit, s.candidates, s.detail) for s in steps] == [
        (s.keep, s.emit, s.candidates, s.detail) for s in trace.steps
    ]
    if name != "beam_search":
        assert tuple(replay_ids(tuple(steps)))[: len(new[0])] == new[0]
