"""What recording costs: tokens per second with every step recorded over plain generate().

Both sides decode the same number of tokens in one process, interleaved A B A B, so that a noisy
machine disturbs both alike; greedily the tokens themselves are compared, too. A ratio of 1 means that
recording is free.
"""

from __future__ import annotations

import argparse
import gzip
import time
from functools import partial
from typing import Any

import torch

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode, load
from engine.models.install import install_model
from engine.trace import json_io
from engine.trace.events import Finished

MODELS = ("storyteller", "smollm2")
CASES: dict[str, dict[str, Any]] = {"greedy": {}, "sampling": {"top_k": 50}}
GOAL = Goal(0.97, at_least=True)
IDS = [5, 9, 11, 4, 20, 7]


def recorded(loaded: LoadedModel, strategy: str, tokens: int) -> tuple[float, Any]:
    """Return seconds of decode() and its trace."""
    params = {"max_new_tokens": tokens, "min_new_tokens": tokens - 1, **CASES[strategy]}
    request = DecodeRequest(strategy, loaded, input_ids=IDS, params=params)
    started = time.perf_counter()
    last = list(decode(request))[-1]
    seconds = time.perf_counter() - started
    assert isinstance(last, Finished), last
    return seconds, last.trace


def plain(loaded: LoadedModel, strategy: str, tokens: int) -> tuple[float, list[int]]:
    """Return seconds of model.generate() and its new tokens."""
    prompt = torch.tensor([IDS])
    generate = partial(
        loaded.model.generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=strategy == "sampling",
        max_new_tokens=tokens,
        min_new_tokens=tokens - 1,
        **CASES[strategy],
    )
    seconds, out = timed(generate)
    return seconds, out[0, len(IDS) :].tolist()


def compare(loaded: LoadedModel, strategy: str, tokens: int, rounds: int) -> list[Figure]:
    """Interleave both and return what they took of one another."""
    recorded(loaded, strategy, 4), plain(loaded, strategy, 4)
    ratios, speeds, sizes = [], [], []
    for _ in range(rounds):
        ours, trace = recorded(loaded, strategy, tokens)
        theirs, expected = plain(loaded, strategy, tokens)
        assert strategy != "greedy" or list(trace.outputs[0].token_ids) == expected
        ratios.append(theirs / ours)
        speeds.append(tokens / ours)
        sizes.append(len(gzip.compress(json_io.dumps(trace).encode())) / 1000)
    about = f"{strategy}, {loaded.name}"
    return [
        Figure(f"{about}: recorded ÷ generate()", ratios, GOAL),
        Figure(f"{about}: recorded, tokens/s", speeds, digits=1),
        Figure(f"{about}: trace of {tokens} steps, kB gzip", sizes[-1:], digits=1),
    ]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=60)
    arguments = parser.parse_args()
    install_model("smollm2", lambda what, done, total: None)
    print(f"Recording 20 candidates against generate(), {torch.get_num_threads()} threads")
    figures = []
    for model in map(load, MODELS):
        for strategy in CASES:
            for figure in compare(model, strategy, arguments.tokens, arguments.rounds):
                print(f"  {figure}", flush=True)
                figures.append(figure)
    tell("recording", figures, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
