"""Ways to draft, side by side: a draft model in a line and in trees, heads, early exit and prompt lookup.

All write the text of greedy search, so they differ in the passes of Storyteller and in CPU seconds alone. The
openings are the first twelve words of thirty stories that neither Storyteller nor its drafts were trained on
(`training.corpus.is_held_out`).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from benchmarks.about import ROOT
from benchmarks.assisted import LENGTHS, LOOKUP, ours
from benchmarks.figures import Figure, tell
from engine import LoadedModel, load

OPENINGS = (ROOT / "benchmarks" / "openings.txt").read_text("utf-8").splitlines()
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "draft model, 3 tokens": ("speculative", {**LENGTHS, "num_assistant_tokens": 3}),
    "draft model, 6 tokens": ("speculative", LENGTHS),
    "draft model, 12 tokens": ("speculative", {**LENGTHS, "num_assistant_tokens": 12}),
    # 12 nodes, as the line above; 6 deep, as the one before.
    "draft tree, 12 nodes, 6 deep": (
        "speculative",
        {"draft_tree": True, "draft_tree_depth": 6, "draft_tree_nodes": 12},
    ),
    "draft tree of widths 2, 2, 1, 1": (
        "speculative",
        {"draft_tree": True, "draft_tree_widths": "2, 2, 1, 1"},
    ),
    "three heads": ("mtp", {}),
    "early exit after layer 4, 3 tokens": (
        "early_exit",
        {**LENGTHS, "num_assistant_tokens": 3, "assistant_early_exit": 4},
    ),
    "prompt lookup": ("prompt_lookup", LOOKUP),
}
"""What is measured: a strategy with its parameters."""


def measure_round(
    target: LoadedModel,
    strategy: str,
    params: dict[str, Any],
    tokens: int,
    openings: list[str] = OPENINGS,
) -> tuple[float, float, list[tuple[int, ...]]]:
    """Return tokens per pass, CPU seconds of all threads, and the new tokens of every opening."""
    draft = load("storyteller-draft") if strategy == "speculative" else None
    made, passes, started = [], 0, time.process_time()
    for opening in openings:
        _, trace = ours(strategy, target, draft, opening, {"max_new_tokens": tokens, **params})
        made.append(trace.outputs[0].token_ids)
        passes += len(trace.steps)
    return sum(map(len, made)) / passes, time.process_time() - started, made


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=30)
    arguments = parser.parse_args()
    target = load("storyteller")
    per_pass: dict[str, float] = {}
    costs: dict[str, list[float]] = {way: [] for way in WAYS}
    for strategy, params in [("greedy", {}), *WAYS.values()]:  # warms everything up
        measure_round(target, strategy, params, arguments.tokens, OPENINGS[:1])
    for _ in range(arguments.rounds):
        _, plain_s, expected = measure_round(target, "greedy", {}, arguments.tokens)
        for way, (strategy, params) in WAYS.items():
            per_pass[way], seconds, made = measure_round(target, strategy, params, arguments.tokens)
            assert made == expected, way
            costs[way].append(plain_s / seconds)
    figures: list[Figure] = []
    for way in WAYS:
        figures += [
            Figure(f"{way}: tokens per pass, {len(OPENINGS)} openings", [per_pass[way]]),
            Figure(f"{way}: CPU seconds of greedy search ÷ its own", costs[way]),
        ]
    for figure in figures:
        print(f"  {figure}")
    tell("drafting", figures, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
