"""What contrastive search looked back to, and how often that decided."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from tests.helpers.models import golden_model
from tests.helpers.runs import reread
from visualizers.contrastive import summary as contrastive

PROMPT = [1, 5, 6, 7, 5, 6, 7, 8]


def traced(name):
    params = {"max_new_tokens": 12, "penalty_alpha": 0.6, "top_k": 4}
    request = DecodeRequest(
        "contrastive_search", golden_model(name), input_ids=PROMPT, params=params
    )
    return reread(request)


def shown(trace):
    looks = contrastive.ContrastiveSummary(trace)
    return [looks.add(step) for step in trace.steps]


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_every_candidate_has_the_token_it_resembles(name):
    trace = traced(name)
    ids = [*([] if name == "t5" else PROMPT), *trace.outputs[0].token_ids]
    for step, values in zip(trace.steps, shown(trace), strict=True):
        for option, like in zip(step.detail.options, values["like"], strict=True):
            assert like == (ids[option.position] if option.position >= 0 else None)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_what_a_step_shows_of_the_choice(name):
    trace = traced(name)
    changed = 0
    for count, (step, values) in enumerate(zip(trace.steps, shown(trace), strict=True), start=1):
        options = step.detail.options
        changed += step.emit[0] != options[0].token_id
        assert (values["steps"], values["changed"]) == (count, changed)
        assert values["gain"] == max(o.score for o in options) - options[0].score
        assert (values["gain"] > 0) == (step.emit[0] != options[0].token_id)
    assert changed


def test_every_sequence_looks_back_to_its_own_text():
    once = traced("llama")
    count = len(once.steps)
    again = [dataclasses.replace(s, index=s.index + count, sequence=1) for s in once.steps]
    twice = dataclasses.replace(once, steps=(*once.steps, *again), outputs=once.outputs * 2)
    likes = [values["like"] for values in shown(twice)]
    assert likes[count:] == likes[:count]
