"""Any kind of long work gives way to a short run from another address within one step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import (
    DecodeRequest,
    decode_prompts,
    load,
    map_dial,
    map_two_dials,
    read_plan,
    run_table,
)
from engine.analysis.allowed_texts import list_allowed_texts
from engine.analysis.grammar_draws import estimate_allowed_texts
from engine.analysis.many_draws import draw_many
from engine.models import slots
from engine.run import pass_pauses, turn_taking
from engine.settings import SETTINGS
from tests.helpers.gates import gate
from tests.helpers.models import golden_model
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.queue import queue_states
from tests.helpers.runs import decode_as, finished, trace_of_run
from tests.helpers.visitors import FIRST, SECOND, asking_as

_PROMPTS = ["The dog", "Once upon a time, there was a little", "A cat", "Her mother"]
_MANY_PASSES = ("dial map", "map of two dials", "texts of a grammar", "draws of a grammar")
"""Their passes are made in another thread than the turn's, and a step may have several."""
_DIVERSE = {"num_beams": 16, "num_beam_groups": 16, "diversity_penalty": 0.5}


@pytest.fixture(autouse=True)
def _turns_of_one_step(monkeypatch, request):
    """Let a turn be over after every step, so that no order depends on the clock."""
    monkeypatch.setattr(turn_taking, "TURN_S", 0.0)
    # These give way inside a pass; of others it is seen that they do so after a step.
    inside = request.node.callspec.params["name"] in _MANY_PASSES
    monkeypatch.setattr(pass_pauses, "_CHECK_S", 0.0 if inside else float("inf"))


def _request(strategy, tokens=12, **params):
    values = {"max_new_tokens": tokens, "min_new_tokens": tokens, **params}
    return DecodeRequest(strategy, "storyteller", "Once upon a time", params=values, seed=3)


def _run(strategy, **params):
    return lambda: finished(_request(strategy, **params))


def _plan(strategy, **params):
    setting = {"strategy": strategy, "params": {"max_new_tokens": 6, **params}}
    plan = {"prompts": _PROMPTS, "settings": [setting], "seeds": 2}
    return lambda: list(run_table(read_plan(plan)))


def _map(asked=map_dial):
    return lambda: list(asked(_request("sampling", 6), "temperature", 0.5, 1.5))


_GRAMMAR = _request("greedy", structured_outputs={"regex": " [ab]{1,5}"})
LONG = {
    "16 beams": _run("beam_search", num_beams=16),
    "diverse beams": _run("diverse_beam_search", **_DIVERSE),
    "drawn beams": _run("beam_sampling", num_beams=16),
    "contrastive with a large top_k": _run("contrastive_search", top_k=50),
    "many sequences": _run("sampling", num_return_sequences=SETTINGS.max_return_sequences),
    "many draws": lambda: list(draw_many(_request("sampling", 4), 300)),
    "prompts that share passes": lambda: decode_prompts(_request("sampling"), _PROMPTS),
    "prompts one by one": lambda: decode_prompts(_request("beam_search", 6), _PROMPTS),
    "dial map": _map(),
    "map of two dials": _map(map_two_dials),
    "texts of a grammar": lambda: list_allowed_texts(_GRAMMAR),
    "draws of a grammar": lambda: estimate_allowed_texts(_GRAMMAR, 100),
    "table": _plan("sampling"),
    "table of searches": _plan("beam_search", num_beams=8),
    "layers": _run("dola"),
    "drafting": _run("prompt_lookup"),
}


@pytest.mark.by_day("contrastive with a large top_k", "table")
@pytest.mark.parametrize("name", LONG)
def test_a_short_run_begins_within_a_step_of_long_work(name):
    model, other = load("storyteller").model, golden_model("llama")
    # The first passes that a model's runs share are preceded by some to measure with, once.
    slots.measure_margin(load("storyteller"))
    short = DecodeRequest("dola", other, input_ids=[5, 9], params={"max_new_tokens": 2})
    order = []

    def ask():
        with asking_as(FIRST):
            LONG[name]()

    hooks = [
        model.register_forward_pre_hook(lambda *_: order.append("long")),
        other.model.register_forward_pre_hook(lambda *_: order.append("short")),
    ]
    try:
        with gate(model, free=3) as held, ThreadPoolExecutor(1) as pool:
            long = pool.submit(ask)
            held.wait()
            second = decode_as(SECOND, short)
            comes_true(lambda: turn_taking.READY in queue_states(SECOND))
            before = len(order)
            held.open()
            trace_of_run(second)
            long.result(PATIENCE_S)
    finally:
        for hook in hooks:
            hook.remove()
    waited = order.index("short") - before
    # Runs of a table begin together, each with a pass over its prompt.
    most = SETTINGS.max_shared_runs if name == "table" else 1
    assert waited <= most, "the held pass, and at most another one that its step needs"
    assert "long" in order[order.index("short") :], "the long work was not over"
