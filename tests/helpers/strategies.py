"""A small request for any strategy of the registry."""

from __future__ import annotations

from functools import cache

from engine import DecodeRequest, load
from engine.strategies import STRATEGIES
from tests.helpers.models import golden_model
from tests.helpers.nightly import some_by_day
from tests.helpers.runs import finished

NEXT_TOKEN = [name for name, strategy in STRATEGIES.items() if "fills" not in strategy.needs]
"""Strategies that write one token after another, with any model; what fills hidden places is tried in
test_diffusion.py."""
OURS = [name for name in NEXT_TOKEN if STRATEGIES[name].loop is not None]
"""Those that decide by a loop of ours; what a custom method does is tried in test_custom.py."""
WITHOUT_HEADS = [name for name in OURS if "heads" not in STRATEGIES[name].needs]
"""Those of OURS that a model without heads takes, such as the real one."""
LOOPS = {
    "sampling": "one token at a time",
    "beam_search": "several texts at a time",
    "contrastive_search": "looks one token ahead",
    "dola": "reads several layers",
    "speculative": "drafts, then judges",
}
"""A strategy for each kind of loop -> what its loop does."""
BY_LOOP = some_by_day(OURS, LOOPS)
"""Every strategy as a parameter of tests that cost seconds: one for each kind of loop by day, all by night."""
PROMPT = [5, 9, 11, 4, 5, 9, 11]


def models_for(name):
    """Tiny models; drafting across tokenizers needs models that have one, filling the embedded one."""
    if STRATEGIES[name].assistant == "any_tokenizer":
        return load("storyteller"), load("foreign-draft")
    if name not in NEXT_TOKEN:
        return load("storyteller"), None
    return golden_model("llama"), golden_model("llama_draft")


def make(name, seed=1, **params):
    model, assistant = models_for(name)
    return DecodeRequest(
        name,
        model,
        input_ids=PROMPT,
        seed=seed,
        params={"max_new_tokens": 10, **params},
        assistant=assistant,
    )


def trace_of(name, **params):
    return finished(make(name, **params))


@cache
def recorded(name):
    """Return a run with the strategy's defaults, which all tests that only read it share."""
    return trace_of(name)
