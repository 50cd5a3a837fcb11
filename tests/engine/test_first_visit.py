"""What a first visit is told is so: the figures are those of the runs, and they say what the sentences say."""

from __future__ import annotations

import re

import pytest

from engine.analysis import first_visit, gallery
from engine.analysis.first_visit import fill_figures, strategy_answers
from engine.statistics.run_figures import quotable_figures
from engine.statistics.watermark_statistics import Z_THRESHOLD
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
    return quotable_figures(gallery.open_entry(f"{run}.json.gz"))[name]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_three_answers_without_holes(name):
    told = strategy_answers(STRATEGIES[name])
    for text in (told.chooses, told.helps, told.turns):
        assert len(text) > 60
        assert "{" not in text
    assert re.search("It helps|made for|Use it to", told.helps)
    assert re.search("hurts|Limit:", told.helps)


@pytest.mark.by_day(
    "speculative-2-tokens_per_forward-speculative-1-tokens_per_forward",
    "early_exit-1-tokens_per_forward-early_exit-2-tokens_per_forward",
)
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


@pytest.mark.nightly
def test_the_index_has_the_figures_of_the_runs():
    for entry in gallery.list_entries():
        assert entry.figures == quotable_figures(gallery.open_entry(entry.file)), entry.file


def test_every_sentence_is_shown_with_the_gallery_that_is_there():
    told = {n: strategy_answers(s) for n, s in STRATEGIES.items()}
    for name, strategy in STRATEGIES.items():
        ours = told[name].helps + told[name].turns
        assert ours.count(".") >= (strategy.helps + strategy.turns).count(". ")
        for part in (strategy.helps + strategy.turns).split("{")[1:]:
            assert part.split("}")[1][:20] in ours, name


def test_without_a_gallery_nothing_is_quoted_and_the_rest_is_reported(monkeypatch):
    monkeypatch.setattr(gallery, "list_entries", list)
    for strategy in STRATEGIES.values():
        told = strategy_answers(strategy)
        assert told.helps.endswith(".")
        assert told.turns.endswith(".")
        assert "{" not in told.helps + told.turns
    assert fill_figures("One. Two {greedy-1.z}. Three.", {}) == "One. Three."
    assert fill_figures("Two {greedy-1.z}.", {"greedy-1": {"z": -7.712}}) == "Two −7.7."
    assert set(first_visit._FIGURE_FORMATS) >= {
        n for e in gallery.list_entries() for n in e.figures
    }
