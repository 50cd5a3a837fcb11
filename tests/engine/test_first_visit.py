"""What a first visit is told is so: the figures are those of the runs, and they say what the sentences say."""

from __future__ import annotations

import pytest

from engine.after.first_visit import answers, filled, numbers
from engine.reading.watermark_statistics import Z_THRESHOLD
from engine.strategies import STRATEGIES

# Less, more: the first number is smaller than the second, as the sentence has it.
COMPARED = [
    ("sampling-1", "perplexity", "sampling-2", "perplexity"),
    ("beam_search-1", "greedy_score", "beam_search-1", "score"),
    ("contrastive_search-1", "rep_3", "contrastive_search-2", "rep_3"),
    ("speculative-2", "tokens_per_forward", "speculative-1", "tokens_per_forward"),
    ("prompt_lookup-2", "tokens_per_forward", "prompt_lookup-1", "tokens_per_forward"),
    ("early_exit-1", "tokens_per_forward", "early_exit-2", "tokens_per_forward"),
    ("greedy-1", "perplexity", "dola-1", "perplexity"),
]


def of(run, name):
    return numbers(f"{run}.json.gz")[name]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_three_answers_without_holes(name):
    told = answers(STRATEGIES[name])
    for text in (told.chooses, told.helps, told.turns):
        assert len(text) > 60
        assert "{" not in text
    assert "help" in told.helps or "made for" in told.helps
    assert "hurts" in told.helps


@pytest.mark.parametrize(("less", "first", "more", "second"), COMPARED)
def test_what_is_said_to_be_more_is_more(less, first, more, second):
    assert of(less, first) < of(more, second)


def test_single_figures_bear_their_sentences_out():
    assert of("greedy-2", "rep_3") > 0.5
    assert of("diverse_beam_search-1", "first_words") == of("diverse_beam_search-1", "outputs")
    assert of("watermark-1", "z") > Z_THRESHOLD
    assert of("universal_assisted-1", "tokens_per_forward") > 1


def test_the_layers_that_are_named_are_those_of_the_runs():
    presets = STRATEGIES["early_exit"].presets[:2]
    assert [p.params["assistant_early_exit"] for p in presets] == [4, 8]


def test_a_number_that_no_run_has_is_an_error():
    assert filled("no number") == "no number"
    with pytest.raises(KeyError):
        filled("{greedy-1.score}")
