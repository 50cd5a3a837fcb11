"""Which pass of masked diffusion wrote which word, how sure it was, and what it would have written before."""

from __future__ import annotations

import itertools

import pytest

from engine.analysis import gallery
from visualizers import summarize_trace

NAMES = [e.name for e in gallery.list_entries() if e.strategy == "masked_diffusion"]


def recorded(name):
    trace = gallery.open_entry(f"{name}.json.gz")
    return trace, [shown["filling"] for shown in summarize_trace(trace, ("filling",))]


@pytest.mark.parametrize("name", NAMES)
def test_every_place_has_its_pass_and_a_written_one_stays(name):
    trace, shown = recorded(name)
    for number, (step, now) in enumerate(zip(trace.steps, shown, strict=True), start=1):
        written = {guess.position: guess for guess in step.detail.written}
        for place, guess in written.items():
            assert now["passes"][place] == number
            assert now["ids"][place] == guess.token_id
            assert (now["p"][place], now["entropy"][place]) == (guess.p, guess.entropy)
        assert {i for i, made in enumerate(now["passes"]) if made == number} == set(written)
        assert now["hidden"] == now["passes"].count(None)
    for before, after in itertools.pairwise(shown):
        kept = [i for i, made in enumerate(before["passes"]) if made is not None]
        assert all(before["ids"][i] == after["ids"][i] for i in kept)
    assert shown[-1]["hidden"] == 0
    whole = shown[-1]["ids"][: len(trace.outputs[0].token_ids)]
    assert tuple(whole) == trace.outputs[0].token_ids


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_guess_is_counted_until_it_is_written(name):
    trace, shown = recorded(name)
    for place in range(trace.steps[0].detail.length):
        made = (g for s in trace.steps for g in s.detail.guesses if g.position == place)
        seen = [guess.token_id for guess in made]
        changed = sum(a != b for a, b in itertools.pairwise(seen))
        assert shown[-1]["changes"][place] == changed


def test_given_words_are_there_from_the_first_pass():
    trace, shown = recorded("masked_diffusion-2")
    given = dict(trace.steps[0].detail.given)
    assert given
    assert {i for i, made in enumerate(shown[0]["passes"]) if made == 0} == set(given)
    assert all(shown[0]["ids"][place] == token_id for place, token_id in given.items())
