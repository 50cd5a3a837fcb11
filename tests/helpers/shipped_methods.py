"""The methods that come along, and the runs of them that the tests look at, all done in one process outside."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch

from engine.models.loading import load
from engine.sandbox.folder import ENTRY
from engine.sources.source import Source
from tests.helpers.outside import outside

METHODS = Path(__file__).parents[2] / "assets" / "methods"
FOLDERS = {path.parents[1].name: path.parents[1] for path in sorted(METHODS.rglob(ENTRY))}
"""Name -> folder of every method and template."""
ONE_ROW = ("rollback_when_stuck", "draft", "rollback")
NEW = 24
END = 0
PROMPTS = {
    "cat": "The cat sat on the",
    "two": "One two three one two",
    "ran": "She ran and ran and",
    "forest": "In the dark forest",
    "la": "La la la",
}
DRAWN = {"do_sample": True, "top_k": 0}
ROWS = ("la", "cat")
"""A text that ends after two tokens, and one that goes on."""
STOPPED_AFTER = 8


@cache
def ids(name: str) -> list[int]:
    """Return a prompt of PROMPTS as Storyteller's tokens."""
    return load("storyteller").tokenizer(PROMPTS[name]).input_ids


def text_of(row: list[int]) -> list[int]:
    """Return a row up to its end, without what fills it up."""
    return row[: row.index(END)] if END in row else row


def _run(method: str | None, prompts: tuple[str, ...] = ("cat",), **more: Any) -> dict[str, Any]:
    folder = str(FOLDERS[method]) if method else None
    config = {"max_new_tokens": NEW, **more.pop("config", {})}
    return {
        "method": folder,
        "prompts": [ids(prompt) for prompt in prompts],
        "config": config,
        "arguments": more.pop("arguments", {}),
        **more,
    }


RUNS = {
    "mirostat": _run("mirostat", config=DRAWN, arguments={"tau": 2.0}),
    "top_n_sigma": _run("top_n_sigma", config=DRAWN | {"temperature": 1.5}),
    "continue_when_uncertain": _run("continue_when_uncertain"),
    "rollback_when_stuck": _run("rollback_when_stuck", ("ran",), arguments={"ngram": 3}),
    "contrastive_decoding": _run("contrastive_decoding", ("forest",)),
    "min_bayes_risk": _run("min_bayes_risk", config=DRAWN, arguments={"num_samples": 4}),
    "next_token": _run("next_token", ("ran",)),
    "draft": _run("draft", ("ran",)),
    "rollback": _run("rollback", ("two",)),
}
"""One run of every method, of one prompt, in which it does what it is there for."""

_PENALTY = {"repetition_penalty": 1.2}
_ONE_TOKEN = {
    "mirostat": {"config": _PENALTY, "arguments": {"tau": 0.001}},
    "top_n_sigma": {"config": _PENALTY, "arguments": {"n": 0.0}},
    "min_bayes_risk": {"config": _PENALTY | {"top_k": 1}, "arguments": {"num_samples": 2}},
    "next_token": {"config": _PENALTY, "arguments": {"penalty": 0.0}},
    "contrastive_decoding": {"config": _PENALTY, "arguments": {"alpha": 1.0}},
    "continue_when_uncertain": {"config": _PENALTY, "arguments": {"threshold": 99.0}},
}
"""Settings under which a method has no choice but the greedy one."""
LIKELY = ("cat", "two", "ran", "forest")
TAU = 2.0
HOT, COOL = 100.0, 0.5
_MANY = {"max_new_tokens": 48, "num_return_sequences": 8}
_FIRST = DRAWN | {"max_new_tokens": 1, "num_return_sequences": 400}
EFFECTS = {
    "plain, long": _run(None, ("two",), config=DRAWN | _MANY),
    "mirostat, long": _run(
        "mirostat", ("two",), config=DRAWN | _MANY, arguments={"tau": TAU, "eta": 0.3}
    ),
    "plain, hot": _run(None, ("two",), config=_FIRST | {"temperature": HOT}),
    "top_n_sigma, hot": _run("top_n_sigma", ("two",), config=_FIRST | {"temperature": HOT}),
    "top_n_sigma, cool": _run("top_n_sigma", ("two",), config=_FIRST | {"temperature": COOL}),
    "greedy, four": _run(None, LIKELY),
    "continue_when_uncertain, four": _run("continue_when_uncertain", LIKELY),
    "contrastive_decoding, four": _run(
        "contrastive_decoding", LIKELY, arguments={"amateur_context": 99}
    ),
    "four draws": _run(None, config=DRAWN | {"num_return_sequences": 4}),
    "greedy, ran": _run(None, ("ran",)),
    "rollback, least 0": _run("rollback", ("two",), arguments={"least": 0.0}),
    "greedy, two": _run(None, ("two",)),
}
REFUSED = {
    "tau = 0 and eta = 0.1": _run("mirostat", arguments={"tau": 0}),
    "n = -1": _run("top_n_sigma", arguments={"n": -1}),
    "threshold = -1": _run("continue_when_uncertain", arguments={"threshold": -1}),
    "branches = 1": _run("continue_when_uncertain", arguments={"branches": 1}),
    "times = 1": _run("rollback_when_stuck", arguments={"times": 1}),
    "alpha = 0": _run("contrastive_decoding", arguments={"alpha": 0}),
    "amateur_context = 0 must": _run("contrastive_decoding", arguments={"amateur_context": 0}),
    "num_samples = 0": _run("min_bayes_risk", arguments={"num_samples": 0}),
    "guesses = 0": _run("draft", arguments={"guesses": 0}),
    "least = 2": _run("rollback", arguments={"least": 2}),
}
"""What the sentence must have in it, and the run that it refuses."""


def _batches() -> dict[str, dict[str, Any]]:
    """Return runs of ROWS together and each alone, all of which the caller stops early."""
    runs = {}
    for name in FOLDERS:
        if name in ONE_ROW:
            runs[f"{name}: both"] = _run(name, ROWS)
            continue
        settings = {"config": _PENALTY | {"do_sample": False}, "stop_after": STOPPED_AFTER}
        if name in ("mirostat", "top_n_sigma", "min_bayes_risk"):  # these draw
            settings |= _ONE_TOKEN[name]
        runs[f"{name}: both"] = _run(name, ROWS, **settings)
        for row in ROWS:
            runs[f"{name}: {row}"] = _run(name, (row,), **settings)
        runs[f"{name}: no choice"] = _run(name, ROWS, **_ONE_TOKEN[name], stop_after=STOPPED_AFTER)
    runs["no choice"] = _run(None, ROWS, config=_PENALTY, stop_after=STOPPED_AFTER)
    return runs


def ran(own: Path) -> dict[str, dict[str, Any]]:
    """Return what came of all runs; ``own`` is a folder for copies of their code."""
    runs = {**RUNS, **EFFECTS, **REFUSED, **_batches()}
    return outside(Source.parse("storyteller").folder(), runs, own, torch.get_num_threads())
