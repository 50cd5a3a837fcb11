"""Why not that one: what an answer says would have changed the choice does change it."""

from __future__ import annotations

import copy
import random
import re

import pytest
import torch
from transformers import TopPLogitsWarper

from engine import DecodeRequest
from engine.inspection.explanation import SURVIVES
from engine.inspection.filter_chain import FilterChain
from engine.inspection.filter_report import explain_removal
from engine.inspection.rerun import replay_to_step
from engine.inspection.why import explain_token
from engine.number_text import format_percent
from engine.processors.removal import RemovalCase
from engine.processors.scores import is_removed
from engine.trace.details import BeamDetail, DraftDetail
from tests.helpers.claims import holds
from tests.helpers.models import golden_model
from tests.helpers.nightly import mark_nightly
from tests.helpers.runs import finished
from tests.helpers.strategies import OURS, PROMPT, make, models_for

ASKED = [5, *mark_nightly([10])]
"""Answers of a test that must come true, by day and by night."""
MOST = 60
"""Tokens that are asked about until so many answers have made a claim."""

CASES = {
    "greedy": ("greedy", {}),
    "greedy, penalised": ("greedy", {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2}),
    "sampling": ("sampling", {"top_k": 0, "temperature": 1.5}),
    "sampling, filtered": ("sampling", {"top_k": 40, "top_p": 0.8, "temperature": 0.8}),
    "beam_search": ("beam_search", {"num_beams": 3}),
    "beam_sampling": ("beam_sampling", {"num_beams": 3, "top_k": 0}),
    "diverse_beam_search": ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 2}),
    "contrastive_search": ("contrastive_search", {"top_k": 8}),
    "dola": ("dola", {"repetition_penalty": 1.2}),
    "dola, sampled": ("dola", {"do_sample": True, "top_k": 5, "repetition_penalty": 1.2}),
    "speculative": ("speculative", {"num_assistant_tokens": 3}),
    "speculative, sampled": ("speculative", {"num_assistant_tokens": 3, "do_sample": True}),
    "speculative, tree": ("speculative", {"draft_tree": True, "do_sample": True, "top_k": 0}),
    "prompt_lookup": ("prompt_lookup", {}),
    "prompt_lookup, sampled": ("prompt_lookup", {"do_sample": True, "top_k": 0}),
    "early_exit": ("early_exit", {"assistant_early_exit": 3}),
    "mtp": ("mtp", {}),
    "mtp, sampled": ("mtp", {"do_sample": True, "top_k": 0}),
    "universal_assisted": ("universal_assisted", {"max_new_tokens": 6}),
    "watermark, green": ("watermark", {"top_k": 0}),
    "watermark, SynthID": ("watermark", {"scheme": "synthid", "keys": [3, 1, 4, 1, 5]}),
}
# Their loops are those of other cases; only what they draw from is another distribution.
BY_NIGHT = [
    *("greedy", "sampling", "beam_sampling", "dola, sampled", "speculative, sampled"),
    *("prompt_lookup, sampled", "early_exit", "mtp"),
]
BY_DAY = [case for case in CASES if case not in BY_NIGHT]


def run_of(strategy, params, seed=1):
    models = models_for(strategy)
    return finished(make(strategy, seed=seed, **params)), models


def test_what_is_held_before_a_token_is_what_comes_before_it():
    scores = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    nucleus = TopPLogitsWarper(0.6)
    for token_id, before in ((2, "0.8"), (3, "0.95")):
        case = RemovalCase(nucleus, torch.tensor([[0]]), scores, 0, token_id, 0, None, str)
        found = explain_removal(case)
        assert f"already hold {before} of the probability" in found.why
        assert found.facts[0][:2] == ("Kept before it", before)
        assert float(before) < found.changes["top_p"] < float(before) + 0.02


def test_every_strategy_is_asked():
    assert {strategy for strategy, _ in CASES.values()} == set(OURS)


@pytest.mark.parametrize("case", [*BY_DAY, *mark_nightly(BY_NIGHT)])
@pytest.mark.parametrize("wanted", ASKED)
def test_what_an_answer_claims_comes_true(case, wanted):
    strategy, params = CASES[case]
    trace, models = run_of(strategy, params)
    chance = random.Random(case)
    tried = asked = 0
    while tried < wanted:
        step = chance.choice(trace.steps)
        place = replay_to_step(trace, step.index, *models)
        assert not place.refused
        token, at = _loser(chance, trace, step)
        answer = explain_token(place, token, at=at)
        asked += 1
        assert asked < MOST, "too few answers make a claim"
        if answer.chosen or answer.claim is None:
            continue
        assert holds(place, answer, at), (step.index, at, answer)
        tried += 1


def _loser(chance, trace, step):
    """Return a token that is asked about, mostly one that had a chance, and its place in a round."""
    at = chance.randrange(len(step.emit)) if isinstance(step.detail, DraftDetail) else None
    recorded = [candidate.token_id for candidate in step.candidates]
    if isinstance(step.detail, BeamDetail):
        recorded += [node.token_id for node in step.detail.pool]
    if isinstance(step.detail, DraftDetail):
        recorded += [token.token_id for token in step.detail.tokens]
    some = chance.random() < 0.7
    return (chance.choice(recorded) if some else chance.randrange(trace.model.vocab_size)), at


ALL = {"top_k": 0}
ONE_END = {"eos_token_id": [2]}
FILTERS = {
    "top_k": ({"top_k": 5}, "only the first 5 stay"),
    "top_p": ({**ALL, "top_p": 0.7}, "top_p = 0.7 asks for no more"),
    "min_p": ({**ALL, "min_p": 0.3}, "min_p = 0.3 asks for more"),
    "top_n_sigma": ({**ALL, "top_n_sigma": 1.0}, "standard deviations below the largest"),
    "xtc_threshold": (
        {**ALL, "xtc_probability": 1.0, "xtc_threshold": 0.015},
        "only the least probable stays",
    ),
    "top_h": ({**ALL, "top_h": 0.4}, "of the entropy"),
    "typical_p": ({**ALL, "typical_p": 0.5}, "bits away from the expected one"),
    "epsilon_cutoff": ({**ALL, "epsilon_cutoff": 0.02}, "is the least"),
    "eta_cutoff": ({**ALL, "eta_cutoff": 0.05}, "with this entropy"),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 1}, "it would repeat"),
    "encoder_no_repeat_ngram_size": ({"encoder_no_repeat_ngram_size": 1}, "of the prompt"),
    "bad_words_ids": ({"bad_words_ids": [[7], [8], [30], [31]]}, "one of the banned words"),
    "suppress_tokens": ({"suppress_tokens": [7, 8, 30, 31]}, "one of the suppressed ids"),
    "begin_suppress_tokens": ({"begin_suppress_tokens": [7, 8]}, "may not come first"),
    "min_new_tokens": ({"min_new_tokens": 9}, "would end the text"),
    "prefix_allowed_tokens_fn": (
        {"prefix_allowed_tokens_fn": [[7, 8, 9], [30, 31, 32]]},
        "would leave the allowed continuations",
    ),
    "forced_eos_token_id": ({"forced_eos_token_id": 2}, "is forced to be"),
    "top_k, top_p": ({"top_k": 5, "top_p": 0.5}, "It survives at top_k ≥"),
}
FEWER = {"begin_suppress_tokens": 2, "min_new_tokens": 3, "bad_words_ids": 4, "suppress_tokens": 4}


@pytest.mark.by_day(9)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("wanted", ASKED)
def test_a_removed_token_survives_where_the_answer_says(name, wanted):
    params, phrase = FILTERS[name]
    trace, models = run_of("sampling", params)
    tried = 0
    for step in trace.steps:
        place = replay_to_step(trace, step.index, *models)
        tokens = [7, 8, 30, 31, 2, *random.Random(step.index).sample(range(97), 20)]
        if name == "no_repeat_ngram_size":
            tokens = [*trace.prompt_ids, *tokens]
        for token in dict.fromkeys(tokens):
            answer = explain_token(place, token)
            claim = answer.claim
            if claim is None or claim.then != SURVIVES or name.split(",")[0] not in claim.changes:
                continue
            assert phrase in answer.sentence, answer.sentence
            assert holds(place, answer), (step.index, answer)
            tried += 1
            if tried >= FEWER.get(name, wanted):
                return
    pytest.fail(f"only {tried} tokens were removed")


@pytest.mark.parametrize(
    ("name", "value", "attribute"),
    [
        ("top_p", 0.6, "top_p"),
        ("typical_p", 0.4, "mass"),
        ("top_h", 0.3, "top_h"),
        ("top_n_sigma", 0.5, "n"),
    ],
)
def test_a_value_short_of_the_one_that_is_said_would_not_do(name, value, attribute):
    trace, models = run_of("sampling", {"top_k": 0, name: value})
    view = replay_to_step(trace, 2, *models).views[0]
    link = FilterChain(view, 0).links[0]
    told = {
        token: explain_token(replay_to_step(trace, 2, *models), token).claim
        for token in (3, 40, 60, 70, 90)
    }
    values = {token: c.changes[name] for token, c in told.items() if c and name in c.changes}
    assert len(values) > 1
    for token, said in values.items():
        short = copy.copy(link.processor)
        setattr(short, attribute, max(value, said - 0.021))
        assert is_removed(short(view.input_ids, link.before.clone()), 0, token)


def test_the_same_luck_at_another_temperature():
    """Where a temperature is named, a run with it takes the token in the very first draw."""
    trace, models = run_of("sampling", {"top_k": 0}, seed=3)
    place, named = replay_to_step(trace, 0, *models), 0
    for token in range(97):
        sentence = explain_token(place, token).sentence
        found = re.search(r"At temperature ([0-9.]+) the same draw would have taken it", sentence)
        if found:
            made = finished(
                make("sampling", seed=3, top_k=0, temperature=float(found[1].rstrip(".")))
            )
            assert made.steps[0].emit == (token,)
            named += 1
    assert named


def test_a_judged_token_is_reported_with_what_either_model_gives_it():
    trace, models = run_of("speculative", {"num_assistant_tokens": 3, "do_sample": True})
    seen = 0
    for step in trace.steps:
        for at, drafted in enumerate(step.detail.tokens):
            if drafted.status not in ("accepted", "rejected"):
                continue
            told = {
                f.name: f.value
                for f in explain_token(
                    replay_to_step(trace, step.index, *models), drafted.token_id, at=at
                ).facts
            }
            assert (told["Main model's p"], told["Draft model's q"]) == (
                format_percent(drafted.p),
                format_percent(drafted.q),
            )
            seen += 1
    assert seen > 3


def test_alpha_is_named_where_one_prefers_the_token():
    trace, models = run_of("contrastive_search", {"top_k": 8, "penalty_alpha": 0.6})
    named = 0
    for step in trace.steps:
        place = replay_to_step(trace, step.index, *models)
        for option in step.detail.options:
            answer = explain_token(place, option.token_id)
            if answer.claim is not None and "penalty_alpha" in answer.claim.changes:
                assert holds(place, answer), answer
                named += 1
    assert named


def test_an_encoder_decoder_is_asked_alike():
    model = golden_model("t5")
    for strategy, params in (
        ("greedy", {"repetition_penalty": 1.2}),
        ("beam_search", {"num_beams": 3}),
        ("contrastive_search", {"top_k": 4}),
        ("sampling", {"top_k": 0}),
    ):
        request = DecodeRequest(
            strategy, model, input_ids=PROMPT, params={"max_new_tokens": 6, **params}, seed=2
        )
        trace = finished(request)
        chance, tried = random.Random(strategy), 0
        for _ in range(MOST):
            step = chance.choice(trace.steps)
            place = replay_to_step(trace, step.index, model)
            token, _ = _loser(chance, trace, step)
            answer = explain_token(place, token)
            if answer.chosen or answer.claim is None or answer.claim.at_step:
                continue
            assert holds(place, answer), (strategy, step.index, answer)
            tried += 1
            if tried == 4:
                break
        assert tried >= 2


def test_a_filter_after_dolas_cut_is_named_too():
    """Top-k acts on the contrast: what the cut lets through may still fall to it."""
    trace, models = run_of("dola", {"do_sample": True, "top_k": 1})
    place = replay_to_step(trace, 2, *models)
    first = place.views[0].processors[0]
    cut = (first.contrast[0] == -torch.inf).nonzero()[:, 0].tolist()
    answers = [explain_token(place, token) for token in cut[:60]]
    both = [a for a in answers if a.claim and {"relative_top", "top_k"} <= a.claim.changes.keys()]
    assert both
    # Without the layers nothing is known of what the cut would let through: no claim is made.
    first.layers = None
    assert explain_token(place, both[0].token_id).claim is None
