"""Watermarked runs of the tiny models, and texts whose n-grams come back."""

from __future__ import annotations

from engine import DecodeRequest
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT_IDS = [5, 9, 11, 4]
GREEN = [
    {},
    {"bias": 4.0, "greenlist_ratio": 0.5},
    {"context_width": 3, "hashing_key": 2**32 - 1},
    {"seeding_scheme": "selfhash", "greenlist_ratio": 0.5},
    {"seeding_scheme": "selfhash", "context_width": 3, "bias": 4.0},
    {"seeding_scheme": "selfhash", "context_width": 4, "hashing_key": 7, "greenlist_ratio": 0.6},
]
SYNTHID = [
    {},
    {"ngram_len": 2, "keys": [1, 2, 3]},
    {"ngram_len": 4, "keys": [9] * 30, "skip_first_ngram_calls": True, "context_history_size": 2},
    {"ngram_len": 3, "sampling_table_size": 256, "sampling_table_seed": 5, "debug_mode": True},
]


def finish(params, model="llama", seed=3, tokens=40, ids=PROMPT_IDS):
    request = DecodeRequest(
        "watermark",
        golden_model(model),
        input_ids=ids,
        seed=seed,
        params={"max_new_tokens": tokens, **params},
    )
    return finished(request)


def repetitive(rng, vocab=97, length=None):
    """Return a text in which n-grams come back."""
    alphabet = rng.sample(range(vocab), rng.randint(3, 40))
    return [rng.choice(alphabet) for _ in range(length or rng.randint(8, 80))]
