"""The strategies that search with beams: what their presets promise, and their refusals."""

from __future__ import annotations

import gzip
import math

import pytest

from engine import STRATEGIES, DecodeRequest, decode
from engine.trace import json_io
from engine.trace.events import Finished
from tests.helpers.beams import PROMPT, searched
from tests.helpers.gates import gate
from tests.helpers.models import golden_model, native
from tests.helpers.runs import failed
from tests.helpers.sentences import clean

SEARCHES = ("beam_search", "beam_sampling", "diverse_beam_search")


def preset(strategy, name):
    chosen = next(p for p in STRATEGIES[strategy].presets if p.name == name)
    return searched(strategy, "storyteller", chosen.prompt, **chosen.params)


def test_beam_search_finds_a_more_probable_text_than_greedy():
    trace = preset("beam_search", "Better than greedy")
    last = trace.steps[-1].detail
    winner = next(h for h in last.heap if h.node_id == last.winner_node_id)
    assert winner.length == len(last.greedy.token_ids)
    assert winner.sum_logprobs > last.greedy.sum_logprobs + 0.1
    assert last.greedy.left_at is not None


def test_one_beam_is_greedy_search():
    trace = preset("beam_search", "One beam is greedy")
    prompt = trace.prompt
    greedy = searched("greedy", "storyteller", prompt, max_new_tokens=24)
    assert trace.outputs[0].token_ids == greedy.outputs[0].token_ids
    assert trace.steps[-1].detail.greedy.token_ids == greedy.outputs[0].token_ids
    raw = sum(s.candidates[0].raw_logprob for s in greedy.steps)
    assert trace.steps[-1].detail.greedy.sum_logprobs == pytest.approx(raw, abs=1e-3)


def test_a_high_length_penalty_changes_the_winner():
    longer = preset("beam_search", "Longer wins")
    chosen = {**longer.config, "length_penalty": 0.0}
    names = ("max_new_tokens", "num_beams", "length_penalty", "early_stopping")
    params = {name: chosen[name] for name in names}
    shorter = searched("beam_search", "storyteller", longer.prompt, **params)
    assert len(longer.outputs[0].token_ids) > len(shorter.outputs[0].token_ids)


def test_forced_words_are_in_the_text():
    trace = preset("beam_search", "It must contain a dragon")
    assert "dragon" in trace.outputs[0].text
    assert any(n.reason.startswith("Added") for s in trace.steps for n in s.detail.pool)


def test_groups_start_with_more_different_words_than_plain_beams():
    diverse = preset("diverse_beam_search", "Different first words")
    params = {"max_new_tokens": 20, "num_beams": 6, "num_return_sequences": 6}
    plain = searched("beam_search", "storyteller", diverse.prompt, **params)

    def first_words(trace):
        return {tuple(o.text.split()[:2]) for o in trace.outputs}

    assert len(first_words(diverse)) == 6 > len(first_words(plain))


@pytest.mark.parametrize("model", ["llama", "gpt2", "t5"])
def test_equal_to_generate_through_the_whole_engine(model):
    loaded = golden_model(model)
    options = {"num_beams": 4, "max_new_tokens": 10, "num_return_sequences": 3}
    trace = searched("beam_search", loaded, **options)
    expected = native(loaded, PROMPT, do_sample=False, **options)
    assert [list(o.token_ids) for o in trace.outputs] == expected
    scores = [o.score for o in trace.outputs]
    assert scores == sorted(scores, reverse=True)
    drawn = searched("beam_sampling", loaded, top_k=0, **options)
    expected = native(loaded, PROMPT, seed=0, do_sample=True, top_k=0, **options)
    assert [list(o.token_ids) for o in drawn.outputs] == expected


def test_stop_strings_end_hypotheses_at_their_own_length():
    trace = searched(
        "beam_search",
        "storyteller",
        "Once upon a time,",
        max_new_tokens=30,
        num_beams=3,
        num_return_sequences=3,
        stop_strings=["."],
    )
    assert len(trace.outputs) == 3
    assert all(o.text.count(".") == 1 for o in trace.outputs)
    assert all(o.text.rstrip('"').endswith(".") for o in trace.outputs)


@pytest.mark.parametrize(
    ("strategy", "params", "says"),
    [
        ("beam_search", {"num_beams": 0}, "num_beams = 0"),
        ("beam_search", {"num_beams": 17}, "to 16"),
        ("beam_search", {"num_beams": 2.5}, "whole number"),
        ("beam_search", {"num_beams": "4"}, "whole number"),
        ("beam_search", {"num_beams": 10**6}, "to 16"),
        ("beam_search", {"num_beams": 2, "num_return_sequences": 3}, "num_beams = 2"),
        ("beam_search", {"length_penalty": math.inf}, "length_penalty"),
        ("beam_search", {"length_penalty": math.nan}, "length_penalty"),
        ("beam_search", {"early_stopping": "sometimes"}, "early_stopping"),
        ("beam_search", {"guidance_scale": 2.0}, "guidance_scale"),
        ("beam_search", {"num_beams": 1, "force_words_ids": [[5]]}, "at least 2"),
        ("beam_search", {"force_words_ids": [[500]]}, "0 to 96"),
        ("beam_sampling", {"num_beams": 1}, "from 2"),
        ("diverse_beam_search", {"num_beams": 5, "num_beam_groups": 2}, "divide num_beams = 5"),
        ("diverse_beam_search", {"diversity_penalty": 0.0}, "above 0"),
        ("diverse_beam_search", {"diversity_penalty": -1.0}, "above 0"),
        ("diverse_beam_search", {"num_beam_groups": 1}, "from 2"),
    ],
    ids=str,
)
def test_bad_input_gets_one_sentence(strategy, params, says):
    request = DecodeRequest(strategy, golden_model("llama"), input_ids=PROMPT, params=params)
    assert says in clean(str(failed(request)))


@pytest.mark.nightly
def test_the_trace_of_eight_beams_stays_small():
    params = {"num_beams": 8, "max_new_tokens": 100, "min_new_tokens": 100}
    trace = searched("beam_search", "storyteller", "Once upon a time,", **params)
    assert len(trace.steps) == 100
    assert all(len(step.detail.pool) >= 16 for step in trace.steps[1:])
    assert len(gzip.compress(json_io.dumps(trace).encode())) < 1_500_000


@pytest.mark.parametrize("strategy", SEARCHES)
def test_cancelling_keeps_the_best_text(strategy):
    model = golden_model("llama")
    request = DecodeRequest(strategy, model, input_ids=PROMPT, params={"max_new_tokens": 200})
    with gate(model.model, free=5) as held:
        run = decode(request)
        held.wait()
        run.cancel()
        held.open()
        *_, last = run
    assert isinstance(last, Finished)
    output, detail = last.trace.outputs[0], last.trace.steps[-1].detail
    assert output.finish_reason == "cancelled"
    assert output.score == max(h.score for h in detail.heap)
    assert held.passes == 6
