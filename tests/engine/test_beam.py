"""Beam search: transformers' own tokens and scores, and a record that is the search itself."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.beams import PROMPT, check_invariants, new_tokens, run
from tests.helpers.loops import as_recorded
from tests.helpers.models import golden_cases, golden_model
from tests.helpers.nightly import cross

MODELS = ("llama", "gpt2", "t5")
SETTINGS = [
    {"num_beams": 4},
    {"num_beams": 2, "num_return_sequences": 2, "early_stopping": True},
    {"num_beams": 5, "num_return_sequences": 3, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": -1.0, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": 2.5, "num_return_sequences": 3, "early_stopping": "never"},
    {"num_beams": 4, "length_penalty": 0.0, "no_repeat_ngram_size": 2, "early_stopping": True},
    {"num_beams": 4, "repetition_penalty": 1.4, "bad_words_ids": [[17], [64, 91]]},
    {"num_beams": 3, "do_sample": True, "temperature": 1.3, "num_return_sequences": 2},
    {"num_beams": 4, "do_sample": True, "top_k": 20, "top_p": 0.9, "early_stopping": True},
]
BIASES = (0.0, 2.0, 4.0)


def native(loaded, ids, seed, **kwargs):
    torch.manual_seed(seed)
    prompt = torch.tensor([ids])
    mask = torch.ones_like(prompt)
    return loaded.model.generate(
        prompt, attention_mask=mask, output_scores=True, return_dict_in_generate=True, **kwargs
    )


@pytest.mark.by_day(3)
@pytest.mark.parametrize(("name", "settings"), cross(MODELS, SETTINGS), ids=str)
def test_equal_to_transformers(name, settings):
    loaded = golden_model(name)
    start = 1 if loaded.is_encoder_decoder else len(PROMPT)
    for seed, bias in enumerate(BIASES):
        eos = loaded.eos_token_ids[0]
        options = {"max_new_tokens": 12, "sequence_bias": [[[eos], bias + 0.001]], **settings}
        expected = native(loaded, PROMPT, seed, **options)
        out, steps = run(loaded, [PROMPT], seed=seed, **options)
        assert out.sequences.tolist() == expected.sequences.tolist()
        assert torch.allclose(out.sequences_scores, expected.sequences_scores, atol=1e-5)
        check_invariants(steps, settings["num_beams"], new_tokens(out, start))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty", [-1.5, 0.0, 1.0, 3.0])
def test_every_end_and_length_penalty(name, early_stopping, length_penalty):
    loaded = golden_model(name)
    start = 1 if loaded.is_encoder_decoder else len(PROMPT)
    options = {
        "num_beams": 4,
        "num_return_sequences": 4,
        "max_new_tokens": 10,
        "early_stopping": early_stopping,
        "length_penalty": length_penalty,
        "sequence_bias": [[[loaded.eos_token_ids[0]], 3.0]],
    }
    expected = native(loaded, PROMPT, 0, **options)
    out, steps = run(loaded, [PROMPT], **options)
    assert out.sequences.tolist() == expected.sequences.tolist()
    assert torch.allclose(out.sequences_scores, expected.sequences_scores, atol=1e-5)
    check_invariants(steps, 4, new_tokens(out, start))


@pytest.mark.by_day("beam-t5-1", "beamneg-t5-1", "beamneg-t5-2")
@pytest.mark.parametrize(
    "case",
    [
        case
        for case in golden_cases("beam", "beamlp", "beamneg", "beamsample")
        # A batch shares its random numbers; the loop runs one prompt.
        if len(case["input_ids"]) == 1 or not case["kwargs"].get("do_sample")
    ],
    ids=lambda case: case["id"],
)
def test_equal_to_recorded_outputs(case):
    loaded, kwargs = golden_model(case["model"]), as_recorded(case["kwargs"])
    rows = len(case["out"]["sequences"]) // len(case["input_ids"])
    for i, ids in enumerate(case["input_ids"]):
        mask = None if case["attention_mask"] is None else [case["attention_mask"][i]]
        out, steps = run(loaded, [ids], mask, seed=case["seed"], **kwargs)
        start = 1 if loaded.is_encoder_decoder else len(ids)
        mine = new_tokens(out, start)
        recorded_rows = case["out"]["sequences"][i * rows : (i + 1) * rows]
        for own, recorded in zip(mine, recorded_rows, strict=True):
            assert recorded[start : start + len(own)] == own
            assert set(recorded[start + len(own) :]) <= {0, *loaded.eos_token_ids}
        check_invariants(steps, kwargs["num_beams"], mine)
