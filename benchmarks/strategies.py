"""What looking ahead and reading layers cost: tokens per second of two strategies over greedy search.

All of them are recorded, with the same prompt and as many tokens, in one process and interleaved, so
that a noisy machine disturbs all alike. Contrastive search runs k candidates through the model for a
token; DoLa applies the output head to every layer, as it is and normed. A ratio of 1 means that a
strategy is as quick as greedy search.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from engine import DecodeRequest, LoadedModel, decode, load
from engine.errors import ModelError
from engine.trace.events import Finished

PROMPT = "Once upon a time, there was a little girl named Lily. She"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "contrastive": ("contrastive_search", {"penalty_alpha": 0.6, "top_k": 4}),
    "dola": ("dola", {"dola_layers": "high"}),
}
GOALS = {
    "storyteller": {"contrastive": 0.75, "dola": 0.85},
    "smollm2": {"contrastive": 0.60, "dola": 0.55},
}


def seconds(
    strategy: str, loaded: LoadedModel, tokens: int, params: dict[str, Any]
) -> tuple[float, float]:
    """Return the seconds of the whole of decode(), and of the processor time of this process."""
    length = {"max_new_tokens": tokens, "min_new_tokens": tokens - 1}
    request = DecodeRequest(strategy, loaded, prompt=PROMPT, params=params | length)
    wall, used = time.perf_counter(), time.process_time()
    last = list(decode(request))[-1]
    wall, used = time.perf_counter() - wall, time.process_time() - used
    assert isinstance(last, Finished), last
    assert sum(len(output.token_ids) for output in last.trace.outputs) >= tokens - 1
    return wall, used


def compare(name: str, tokens: int, rounds: int) -> list[Figure]:
    """Interleave all strategies on one model; return how quick each is, by the clock and the processor."""
    loaded = load(name)
    wall: dict[str, list[float]] = {case: [] for case in CASES}
    used: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(rounds + 1):
        greedy = seconds("greedy", loaded, tokens, {})
        for case, (strategy, params) in CASES.items():
            own = seconds(strategy, loaded, tokens, params)
            if number:  # the first round warms everything up
                wall[case].append(greedy[0] / own[0])
                used[case].append(greedy[1] / own[1])
    figures = []
    for case in CASES:
        goal = Goal(GOALS[name][case], at_least=True, of_speed=True)
        figures.append(Figure(f"{case}, {name}: ÷ greedy search", wall[case], goal))
        figures.append(Figure(f"{case}, {name}: the same by processor time", used[case]))
    return figures


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--models", nargs="+", choices=GOALS, default=list(GOALS))
    arguments = parser.parse_args()
    print(f"Against recorded greedy search, {torch.get_num_threads()} threads")
    figures = []
    for name in arguments.models:
        try:
            found = compare(name, arguments.tokens, arguments.rounds)
        except ModelError as error:
            print(f"  {name} left out: {error}")
            continue
        for figure in found:
            print(f"  {figure}", flush=True)
        figures += found
    tell("strategies", figures, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
