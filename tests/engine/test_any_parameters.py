"""Any legal parameters: generate()'s own tokens, or one sentence, and never an internal error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import DecodeRequest, decode
from engine.declare.params import build_config
from engine.strategies import STRATEGIES
from engine.strategies.bundled_loops import find_bundled_loop
from tests.helpers.any_params import UNTRIED, Talker, check_any, expected, talker_of
from tests.helpers.random_params import params_for
from tests.helpers.real import assistant_of, real_model
from tests.helpers.strategies import NEXT_TOKEN, OURS, WITHOUT_HEADS
from tests.helpers.talkers import PROMPT, assistant, target

FEW, MANY, OF_A_REAL_MODEL = 10, 300, 3
ALWAYS = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


def property_of(name: str, examples: int, talker: Talker | None = None, **more: Any) -> None:
    """Try a strategy with so many examples; what fails is shrunk."""
    vocab = (talker or Talker()).target().vocab_size

    @settings(max_examples=examples, **ALWAYS, **more)
    @given(params=params_for(name, vocab), seed=st.integers(0, 3))
    def holds(params: dict[str, Any], seed: int) -> None:
        check_any(name, params, seed, talker)

    holds()


@pytest.mark.by_day("beam_search", "diverse_beam_search", "contrastive_search")
@pytest.mark.parametrize("name", OURS)
def test_any_parameters_give_generates_tokens_or_a_sentence(name):
    property_of(name, FEW, derandomize=True)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", OURS)
def test_many_more_parameters_do(name):
    property_of(name, MANY, print_blob=True)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("kind", UNTRIED)
def test_architectures_that_no_other_test_uses_do_too(kind, name):
    property_of(name, FEW, talker_of(kind), derandomize=True)


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", WITHOUT_HEADS)
def test_a_real_chat_model_does_too(name):
    talker = Talker(real_model, assistant_of, question="Name three colours.")
    property_of(name, OF_A_REAL_MODEL, talker, derandomize=True)


def test_scores_that_a_filter_cannot_continue_with_are_named():
    """DoLa's mask is −∞, and nothing times −∞ is no number."""
    params = {"guidance_scale": 0.0, "top_h": 1.0, "do_sample": True, "max_new_tokens": 2}
    *_, last = decode(DecodeRequest("dola", target(), PROMPT, params=params))
    said = str(last.error)
    assert said.startswith("The scores became NaN in ")
    assert said.endswith("and TopH cannot go on with them.")


@pytest.mark.parametrize("name", ["sampling", "dola", "prompt_lookup"])
@pytest.mark.parametrize("more", [{"eta_cutoff": 0.0085}, {"top_h": 0.65}])
def test_infinite_scores_are_named_with_the_filter_that_made_them(name, more):
    growing = {"exponential_decay_length_penalty": (1, 3.0), "remove_invalid_values": True}
    params = {"max_new_tokens": 8, "min_new_tokens": 4, "do_sample": True, **growing, **more}
    if name == "sampling":
        del params["do_sample"]
    *_, last = decode(DecodeRequest(name, target(), PROMPT, params=params))
    made = "The scores became infinite in ExponentialDecayLengthPenalty, and "
    assert str(last.error).startswith(made)
    assert str(last.error).endswith(" cannot go on with them.")


@pytest.mark.parametrize("name", ["forced_bos_token_id", "forced_eos_token_id"])
def test_an_id_that_is_forced_and_suppressed_is_named(name):
    for strategy in NEXT_TOKEN:
        params = {name: 7, "suppress_tokens": [5, 7]}
        *_, last = decode(
            DecodeRequest(strategy, target(), PROMPT, params=params, assistant=assistant(strategy))
        )
        said = f"{name} = 7 is not allowed: it must not be one of suppress_tokens."
        assert str(last.error) == said


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("beam_sampling", {"temperature": 0.001, "top_k": 0}),
        ("sampling", {"temperature": 0.02, "top_k": 0}),
        ("dola", {"remove_invalid_values": True}),
        ("watermark", {"guidance_scale": -9.0}),
    ],
)
def test_a_trace_with_extreme_numbers_is_read_again(name, params):
    for seed in range(4):
        check_any(name, {"max_new_tokens": 4, **params}, seed)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "params",
    [{}, {"top_k": 5, "min_p": 0.3, "typical_p": 0.5}, {"top_k": 0, "repetition_penalty": 2.0}],
)
def test_prompt_lookup_draws_what_generate_draws_without_the_bundled_loop(params):
    for seed in range(8):
        params = {"max_new_tokens": 6, "do_sample": True, **params}
        assert expected("prompt_lookup", params, seed) is not None
        check_any("prompt_lookup", params, seed)


@pytest.mark.parametrize(
    "params",
    [{"top_p": 0.5}, {"top_h": 0.5}, {"repetition_penalty": 2.0}, {"sequence_bias": [([5], -9.0)]}],
)
def test_prompt_lookup_brings_its_loop_along_once_the_draws_may_differ(params):
    strategy = STRATEGIES["prompt_lookup"]
    assert (
        find_bundled_loop(strategy, build_config(strategy.config, params | {"do_sample": True}, ""))
        is not None
    )
    assert find_bundled_loop(strategy, build_config(strategy.config, params, "")) is None


ENDS = {"sequence_bias": [([2], 6.0)]}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"length_penalty": 5.0, "early_stopping": "never"} | ENDS,
        {"suppress_tokens": [5], "no_repeat_ngram_size": 2} | ENDS,
        {"repetition_penalty": 0.5},
        {"encoder_repetition_penalty": 2.0},
        {"exponential_decay_length_penalty": (1, 1.5)},
        {"repetition_penalty": 0.5, "bad_words_ids": ["bear"]},
    ],
)
def test_one_beam_is_greedy_search(params):
    check_any("beam_search", {"max_new_tokens": 12, "num_beams": 1, **params}, 0)


def test_a_greedy_path_that_may_not_continue_is_missing_with_a_note():
    params = {
        "max_new_tokens": 2,
        "bad_words_ids": ["bear"],
        "prefix_allowed_tokens_fn": [[0], "bear"],
    }
    check_any("beam_search", params, 0)
    *_, last = decode(DecodeRequest("beam_search", target(), PROMPT, params=params))
    assert "The greedy path next to the beams is missing: Every token that could" in " ".join(
        last.trace.notes
    )


@pytest.mark.by_day("sampling")
@pytest.mark.parametrize("name", ["sampling", "watermark"])
def test_a_text_that_a_stop_string_ends_is_not_filled_up_next_to_longer_ones(name):
    params = {"max_new_tokens": 6, "num_return_sequences": 4, "stop_strings": ["e", " a"]}
    ended = 0
    for seed in range(6):
        check_any(name, params, seed)
        *_, last = decode(DecodeRequest(name, target(), PROMPT, params=params, seed=seed))
        lengths = [len(output.token_ids) for output in last.trace.outputs]
        for output, length in zip(last.trace.outputs, lengths, strict=True):
            if length < max(lengths):
                ended += 1
                assert output.finish_reason in ("stop", "eos")
    assert ended
