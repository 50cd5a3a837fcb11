"""The greedy path beside a search: greedy search itself, partly read off the search's beams."""

from __future__ import annotations

import pytest

from engine import DecodeRequest, LoadedModel, decode
from engine.loops.beams.greedy_path import divergence_index
from engine.trace.events import Checking, Finished, StepRecorded, TextDelta
from tests.helpers.beams import searched
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model, golden_model


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
@pytest.mark.parametrize("bias", [0.0, 2.0, 4.0])
@pytest.mark.parametrize("rules", [{}, {"no_repeat_ngram_size": 2}], ids=str)
def test_it_is_greedy_search(name, bias, rules):
    model = golden_model(name)
    ending = {"sequence_bias": (((model.eos_token_ids[0],), bias),)} if bias else {}
    params = {"max_new_tokens": 12, **rules, **ending}
    greedy = searched("greedy", model, **params)
    total = sum(
        next(c.raw_logprob for c in step.candidates if c.token_id == step.emit[0])
        + (bias if step.emit[0] == model.eos_token_ids[0] else 0)
        for step in greedy.steps
    )
    for beams in (1, 2, 4, 8):
        trace = searched("beam_search", model, num_beams=beams, length_penalty=2.0, **params)
        path = trace.steps[-1].detail.greedy
        assert path.token_ids == greedy.outputs[0].token_ids
        assert path.sum_logprobs == pytest.approx(total, abs=1e-4)
        assert path.score == pytest.approx(total / len(path.token_ids) ** 2, abs=1e-4)
        winner = trace.outputs[0].token_ids
        assert path.left_at == divergence_index(path.token_ids, winner)
        assert (path.left_at is None) == (path.token_ids == winner)


def test_where_two_paths_part():
    assert divergence_index((1, 2, 3), (1, 2, 3)) is None
    assert divergence_index((1, 2, 3), (1, 5, 3)) == 1
    assert divergence_index((1, 2), (1, 2, 3)) == 2
    assert divergence_index((1, 2, 3), (1, 2)) == 2


def test_one_beam_needs_no_further_pass():
    model, passes = golden_model("llama"), []
    hook = model.model.register_forward_hook(lambda *_: passes.append(1))
    try:
        trace = searched("beam_search", model, num_beams=1, max_new_tokens=9)
    finally:
        hook.remove()
    assert len(passes) == len(trace.steps) == 9
    assert trace.steps[-1].detail.greedy.token_ids == trace.outputs[0].token_ids


@pytest.mark.parametrize(
    ("strategy", "groups"),
    [
        ("beam_search", {}),
        ("diverse_beam_search", {"num_beam_groups": 2, "diversity_penalty": 2.0}),
    ],
)
def test_the_last_step_and_the_text_are_sent_before_it_is_decoded(strategy, groups):
    model = LoadedModel(fresh_model("llama"))
    params = {"num_beams": 2, "max_new_tokens": 12, **groups}
    request = DecodeRequest(strategy, model, input_ids=[11, 4, 7], params=params)
    whole = list(decode(request))[-1].trace
    with gate(model.model, free=len(whole.steps)) as held:
        run = decode(request)
        held.wait()  # at the first pass of the path: what comes now was sent before it
        events = [next(run)]
        while not isinstance(events[-1], Checking):
            events.append(next(run))
        held.open()
        *_, last = run
    sent = [event.step for event in events if isinstance(event, StepRecorded)]
    assert len(sent) == len(whole.steps)
    assert sent[-1].detail.stopping
    assert sent[-1].detail.greedy is None
    assert text_of(events) == whole.outputs[0].text
    assert isinstance(last, Finished)
    assert last.trace.steps[-1].detail.greedy == whole.steps[-1].detail.greedy
    assert last.trace.steps[-1].detail.greedy is not None
    assert last.trace.steps[:-1] == tuple(sent[:-1])


def text_of(events):
    """Return the text that the changes make."""
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text = text[: event.keep_chars] + event.text
    return text
