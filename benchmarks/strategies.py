"""What looking ahead and reading layers cost: tokens per second of two strategies over greedy search.

All of them are recorded, with the same prompt and as many tokens, in one process and interleaved, so
that a noisy machine disturbs all alike. Contrastive search runs k candidates through the model for a
token; DoLa applies the output head to every layer, as it is and normed. A ratio of 1 means that a
strategy is as quick as greedy search.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import torch

from engine import DecodeRequest, LoadedModel, decode, load
from engine.errors import ModelError
from engine.trace.events import Finished

PROMPT = "Once upon a time, there was a little girl named Lily. She"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "contrastive": ("contrastive_search", {"penalty_alpha": 0.6, "top_k": 4}),
    "dola": ("dola", {"dola_layers": "high"}),
}
TARGETS = {
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


def compare(name: str, tokens: int, rounds: int) -> list[dict[str, Any]]:
    """Interleave all strategies on one model; return a result of each."""
    loaded = load(name)
    ratios: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    for number in range(rounds + 1):
        greedy = seconds("greedy", loaded, tokens, {})
        for case, (strategy, params) in CASES.items():
            own = seconds(strategy, loaded, tokens, params)
            if number:  # the first round warms everything up
                ratios[case].append((greedy[0] / own[0], greedy[1] / own[1]))
    return [_summed(name, case, found) for case, found in ratios.items()]


def _summed(name: str, case: str, found: list[tuple[float, float]]) -> dict[str, Any]:
    wall, used = ([pair[i] for pair in found] for i in (0, 1))
    return {
        "model": name,
        "case": case,
        "target": TARGETS[name][case],
        "n": len(wall),
        "ratio_median": round(statistics.median(wall), 3),
        "ratio_min": round(min(wall), 3),
        "ratio_max": round(max(wall), 3),
        "processor_ratio_median": round(statistics.median(used), 3),
    }


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--models", nargs="+", choices=TARGETS, default=list(TARGETS))
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for name in arguments.models:
        try:
            results += compare(name, arguments.tokens, arguments.rounds)
        except ModelError as error:
            print(f"{name} left out: {error}")
    print(f"Against recorded greedy search, {torch.get_num_threads()} threads")
    for r in results:
        print(
            f"  {r['model']:12} {r['case']:12} ratio {r['ratio_median']:.3f} ({r['ratio_min']:.3f}–"
            f"{r['ratio_max']:.3f}, n={r['n']}), by processor time {r['processor_ratio_median']:.3f}, "
            f"target {r['target']:.2f}"
        )
    print(json.dumps({"benchmark": "strategies", "results": results}))


if __name__ == "__main__":
    main()
