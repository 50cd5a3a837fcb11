"""The sentence of a step is true for the record: checked on the recorded runs of the gallery."""

from __future__ import annotations

import math

import pytest

from engine import DecodeRequest
from engine.analysis import gallery
from engine.run.decoding import trace_of
from engine.serving import decode
from engine.trace.details import BeamDetail
from engine.trace.records import Trace, chosen_token_id
from tests.helpers.llama_server import Llama
from tests.helpers.runs import finished
from visualizers import summarize_trace

RUNS = {entry.file.split(".")[0]: entry for entry in gallery.list_entries()}


def sentences(name: str) -> tuple[Trace, list[dict]]:
    trace = gallery.open_entry(RUNS[name].file)
    return trace, [shown["sentence"] for shown in summarize_trace(trace, ())]


def chances(step):
    return {c.token_id: math.exp(c.processed_logprob) for c in step.candidates}


@pytest.mark.by_day("greedy-4", "masked_diffusion-3", "greedy-smollm2-2")
@pytest.mark.parametrize("name", RUNS)
def test_every_step_names_the_word_that_it_chose(name):
    trace, found = sentences(name)
    kinds = {"marked", "bits", "beam_leads", "method_nothing", "filled", "filled_one"}
    for step, sentence in zip(trace.steps, found, strict=True):
        if sentence["kind"] not in kinds:
            assert sentence["word"] in (
                chosen_token_id(step),
                getattr(step.detail, "final_token_id", None),
            )
        assert sentence["kind"] != "plain"


def test_a_draw_is_rare_or_not_by_its_chance():
    trace, found = sentences("sampling-1")
    assert {sentence["kind"] for sentence in found} >= {"drawn_favourite", "drawn_rare", "drawn"}
    for step, sentence in zip(trace.steps, found, strict=True):
        share = chances(step)
        best = max(share, key=share.__getitem__)
        word = step.detail.racers[0].token_id
        if sentence["kind"] == "drawn_favourite":
            assert share[word] == share[best]
        elif sentence["kind"].startswith("drawn"):
            assert sentence["other"] == best != word
            assert (sentence["kind"] == "drawn_rare") == (share[word] < 0.1)
            assert sentence["share"] == pytest.approx(share[word], rel=1e-5)


def test_a_draw_from_a_servers_candidates_has_its_chance_with_the_settings():
    own = {"sampler": "own", "temperature": 0.5, "top_k": 5, "max_new_tokens": 8}
    with Llama().serve() as server:
        model = f"endpoint:{server.base}#m"
        trace = trace_of([*decode(DecodeRequest("sampling", model, "one two", params=own))][-1])
    shown = summarize_trace(trace, ("candidates",))
    assert any(one["sentence"]["kind"] in ("drawn", "drawn_rare") for one in shown)
    for step, one in zip(trace.steps, shown, strict=True):
        share = chances(step)[chosen_token_id(step)]
        assert one["sentence"]["share"] == pytest.approx(share, rel=1e-5)
        arrival = step.detail.draw.racers[0].arrival
        assert one["candidates"]["drawn"]
        assert one["candidates"]["needle"] == pytest.approx(1 - math.exp(-arrival), abs=1e-4)


def test_where_a_grammar_left_one_word_the_models_own_choice_is_named():
    params = {"structured_outputs": {"choice": [" zebra."]}, "max_new_tokens": 8}
    trace = finished(DecodeRequest("greedy", prompt="One day, a little boy", params=params))
    found = [shown["sentence"] for shown in summarize_trace(trace, ())]
    wanted = [one for one in found if one["kind"] == "only_wanted"]
    assert wanted
    for step, sentence in zip(trace.steps, found, strict=True):
        if sentence["kind"] == "only_wanted":
            [favourite] = [one for one in step.candidates if one.rank == 0]
            assert sentence["filter"] == "Grammar"
            assert sentence["other"] == favourite.token_id != step.emit[0]
            assert sentence["other_share"] == pytest.approx(math.exp(favourite.raw_logprob))


def test_greedy_takes_the_likeliest_and_says_when_it_was_close():
    trace, found = sentences("greedy-1")
    assert {sentence["kind"] for sentence in found} == {"favourite", "close"}
    for step, sentence in zip(trace.steps, found, strict=True):
        first, second = sorted(chances(step).values())[:-3:-1]
        assert (sentence["kind"] == "close") == (first - second < 0.05)


def test_contrastive_search_names_the_likelier_word_that_it_left():
    trace, found = sentences("contrastive_search-1")
    assert {sentence["kind"] for sentence in found} == {"unlike", "alike"}
    for step, sentence in zip(trace.steps, found, strict=True):
        first, own = step.detail.options[0], step.detail.options[step.detail.chosen]
        if sentence["kind"] == "alike":
            assert sentence["other"] == first.token_id
            assert first.probability >= own.probability
            assert first.max_cosine > own.max_cosine


def test_layers_name_the_last_layers_favourite():
    trace, found = sentences("dola-1")
    for step, sentence in zip(trace.steps, found, strict=True):
        gained = dict(step.detail.contrast_top)
        best = step.detail.final_top[0][0]
        assert (sentence["kind"] == "layers_same") == (best == step.emit[0])
        if sentence["kind"] == "layers_grown":
            assert gained[step.emit[0]] > gained.get(best, -math.inf)


@pytest.mark.parametrize("name", ["speculative-1", "prompt_lookup-1", "early_exit-1", "mtp-1"])
def test_a_round_counts_what_was_guessed_and_kept(name):
    trace, found = sentences(name)
    for step, sentence in zip(trace.steps, found, strict=True):
        kept = len(step.emit) - (sentence["end"] != "ended")
        assert (sentence["count"], sentence["kept"]) == (len(step.detail.tokens), kept)
        assert (sentence["end"] == "bonus") == (
            kept == sentence["count"] and sentence["end"] != "ended"
        )


@pytest.mark.parametrize("name", ["masked_diffusion-1", "masked_diffusion-4"])
def test_a_pass_names_its_most_and_its_least_certain_word(name):
    trace, found = sentences(name)
    for step, sentence in zip(trace.steps, found, strict=True):
        most = max(step.detail.written, key=lambda guess: guess.p)
        assert (sentence["word"], sentence["share"]) == (most.token_id, most.p)
        if sentence["kind"] == "filled":
            assert sentence["other_share"] == min(guess.p for guess in step.detail.written)
            assert sentence["count"] == len(step.detail.written) > 1


@pytest.mark.nightly
def test_marks_are_counted_over_the_whole_text():
    trace, found = sentences("watermark-1")
    scored = [step.detail for step in trace.steps if step.detail.scored]
    assert found[-1]["count"] == len(scored)
    assert found[-1]["hits"] == sum(bool(detail.is_green) for detail in scored)
    assert found[-1]["expected"] == round(len(scored) * scored[0].chance)


@pytest.mark.by_day("beam_search-3", "beam_search-5", "diverse_beam_search-smollm2-1")
@pytest.mark.parametrize("name", [name for name in RUNS if "beam" in name])
def test_the_sentences_of_a_search_follow_the_text_that_won(name):
    trace, found = sentences(name)
    path = found[-1]["path"]
    words = [sentence["word"] for sentence in path if sentence]
    assert words == list(trace.outputs[0].token_ids[: len(words)])
    for step, sentence in zip(trace.steps, path, strict=True):
        if sentence is None:
            continue
        assert isinstance(step.detail, BeamDetail)
        node = next(n for n in step.detail.pool if n.node_id == sentence["node"])
        group = [n for n in step.detail.pool if n.group == node.group]
        best = max(n.sum_logprobs for n in group)
        if sentence["kind"] == "beam_best":
            assert node.sum_logprobs == best
        if sentence["kind"] in ("beam_start", "beam_later"):
            other = [n for n in group if n.token_id == sentence["other"]]
            assert max(n.sum_logprobs for n in other) == best > node.sum_logprobs
        if sentence["kind"] == "beam_avoided":
            other = [n for n in group if n.token_id == sentence["other"]]
            undone = max(n.sum_logprobs + n.diversity_penalty for n in other)
            assert undone > node.sum_logprobs + node.diversity_penalty
