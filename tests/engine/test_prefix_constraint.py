"""Allowed continuations, tried at random: equal to generate() where that works, and kept to anywhere."""

from __future__ import annotations

import random

import pytest

from engine import DecodeRequest, decode
from engine.run.generation import make_prefix_allowed_tokens_fn
from engine.strategies import STRATEGIES
from engine.trace.events import Failed
from engine.trace.json_io import dumps, loads
from tests.helpers.models import VOCAB, golden_model, native
from tests.helpers.nightly import mark_nightly
from tests.helpers.runs import failed, finished
from tests.helpers.strategies import OURS
from tests.helpers.tokenizers import speaker_of

PROMPT = [5, 9, 31, 7]
END = 2
TRIES = [10, *mark_nightly([24])]
"""Random requests of a test, by day and by night."""
NATIVE = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "top_k": 50},
    "beam_search": {"do_sample": False},
    "beam_sampling": {"do_sample": True, "top_k": 50},
}
DRAFTING = [name for name, strategy in STRATEGIES.items() if strategy.group == "faster"]


def continuations(rng):
    """Return one to four continuations of one to four ids."""
    return [
        [rng.randrange(3, VOCAB) for _ in range(rng.randint(1, 4))]
        for _ in range(rng.randint(1, 4))
    ]


def few(rng):
    """Return a callable that allows a few ids anywhere, the end mark sometimes among them."""
    ids = sorted({rng.randrange(3, VOCAB) for _ in range(rng.choice([1, 4, 20]))})
    ids += [END] if rng.random() < 0.7 else []
    return lambda batch_id, so_far: ids


def asked(name, rng, form):
    """Return random parameters of a strategy, one form of allowed tokens among them."""
    allowed = continuations(rng) if form == "list" else few(rng)
    params = {"max_new_tokens": rng.randint(1, 8), "prefix_allowed_tokens_fn": allowed}
    if STRATEGIES[name].group == "beams":
        beams = 4 if name == "diverse_beam_search" else rng.choice([2, 3, 4])
        params |= {"num_beams": beams, "num_return_sequences": rng.randint(1, beams)}
        params["early_stopping"] = rng.choice([True, False, "never"])
    if name == "diverse_beam_search":
        params["num_beam_groups"] = rng.choice([2, 4])
    if name in DRAFTING:
        params["do_sample"] = rng.choice([True, False])
    return params | ({"assistant_early_exit": 2} if name == "early_exit" else {})


def request(name, params, seed):
    models = golden_model("llama"), golden_model("llama_draft")
    if name == "universal_assisted":
        models = speaker_of("byte_level"), speaker_of("sentencepiece", 2)
    needs = STRATEGIES[name].assistant != "none"
    return DecodeRequest(
        name,
        models[0],
        input_ids=PROMPT,
        params=params,
        seed=seed,
        assistant=models[1] if needs else None,
    )


def kept_to(ids, allowed):
    """Whether ids are, as far as they go, one of the continuations and then an end."""
    if callable(allowed):
        return set(ids) <= set(allowed(0, None))
    body = ids[:-1] if ids[-1] != END and ids[-1] < 3 else [i for i in ids if i != END]
    return any(list(entry[: len(body)]) == body for entry in allowed)


@pytest.mark.by_day("10-sampling-list", "10-contrastive_search-list", "10-speculative-callable")
@pytest.mark.parametrize("form", ["list", "callable"])
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("tries", TRIES)
def test_the_output_keeps_to_what_is_allowed(name, form, tries):
    for seed in range(tries):
        params = asked(name, random.Random(seed), form)
        trace = finished(request(name, params, seed))
        rows = [list(output.token_ids) for output in trace.outputs]
        assert kept_to(rows[0], params["prefix_allowed_tokens_fn"]), seed
        scored = sum(output.score is not None for output in trace.outputs)
        filled = any("fills up the number" in note for note in trace.notes)
        assert filled == (0 < scored < len(rows))
        if form == "list":
            assert loads(dumps(trace)) == trace
        if name in NATIVE:
            plain = params | NATIVE[name]
            if form == "list":
                entries = tuple(map(tuple, params["prefix_allowed_tokens_fn"]))
                plain["prefix_allowed_tokens_fn"] = make_prefix_allowed_tokens_fn(
                    entries, len(PROMPT), (END,), VOCAB
                )
            assert rows == native(golden_model("llama"), PROMPT, seed=seed, **plain), seed


@pytest.mark.by_day(3)
@pytest.mark.parametrize("form", ["list", "callable"])
@pytest.mark.parametrize("name", DRAFTING)
@pytest.mark.parametrize("tries", TRIES)
def test_drafts_leave_a_greedy_text_as_it_is(name, form, tries):
    for seed in range(tries // 2):
        params = asked(name, random.Random(seed), form) | {"do_sample": False}
        drafted = request(name, params, seed)
        few = ("max_new_tokens", "prefix_allowed_tokens_fn")
        plain = {n: params[n] for n in few}
        alone = DecodeRequest("greedy", drafted.model, input_ids=PROMPT, params=plain)
        assert finished(drafted).outputs[0].token_ids == finished(alone).outputs[0].token_ids


@pytest.mark.parametrize("form", ["list", "callable"])
@pytest.mark.parametrize("tries", TRIES)
def test_with_words_that_must_occur_there_is_a_text_or_a_sentence(form, tries):
    said = 0
    for seed in range(tries):
        rng = random.Random(seed)
        params = asked("beam_search", rng, form)
        allowed = params["prefix_allowed_tokens_fn"]
        word = rng.choice(allowed(0, None) if form == "callable" else rng.choice(allowed))
        params["force_words_ids"] = [[word if rng.random() < 0.7 and word != END else 90]]
        *_, last = decode(request("beam_search", params, seed))
        if isinstance(last, Failed):
            assert "allow more tokens" in str(last.error)
            said += 1
        else:
            assert kept_to(list(last.trace.outputs[0].token_ids), allowed)
    assert said < tries / 2


@pytest.mark.parametrize("name", ["greedy", "beam_search", "diverse_beam_search", "speculative"])
@pytest.mark.parametrize("answer", [[], [97], [-1], ["a"], None, 5])
def test_an_answer_that_allows_nothing_is_named(name, answer):
    params = asked(name, random.Random(1), "list") | {"do_sample": False}
    params = {n: v for n, v in params.items() if n != "do_sample" or name == "speculative"}
    params["prefix_allowed_tokens_fn"] = lambda batch_id, ids: answer
    error = failed(request(name, params, 0))
    assert str(error).startswith("prefix_allowed_tokens_fn = ")
    assert "ids from 0 to 96" in str(error)


def test_texts_are_cut_as_they_continue_the_prompt():
    for kind in ("byte_level", "sentencepiece", "unigram"):
        loaded = speaker_of(kind)
        params = {"prefix_allowed_tokens_fn": [" bear ran", " bird saw"]}
        for name in ("greedy", "beam_search", "diverse_beam_search"):
            trace = finished(DecodeRequest(name, loaded, "the little", params=params))
            assert trace.outputs[0].text in (" bear ran", " bird saw")
