"""A table of Tune, compared with its runs one after another: 20 prompts, 8 settings and 3 seeds of Storyteller.

Both sides make the same runs in one process, in turns, and their texts have to be equal. The settings decode one
sequence each, as runs that share passes do.
"""

from __future__ import annotations

import argparse
import resource
import time

from benchmarks.drafting import OPENINGS
from benchmarks.figures import Figure, tell
from engine import load
from engine.analysis.tune.plan import Cell, TunePlan, TunePrompt, TuneSetting
from engine.analysis.tune.run_table import run_table
from engine.run.decoding import decode_to_trace

SETTINGS = (
    TuneSetting("greedy"),
    TuneSetting("greedy", {"repetition_penalty": 1.2}),
    TuneSetting("sampling", {"temperature": 0.5}),
    TuneSetting("sampling", {"temperature": 1.0, "top_k": 0}),
    TuneSetting("sampling", {"top_k": 10}),
    TuneSetting("sampling", {"top_p": 0.9, "top_k": 0}),
    TuneSetting("sampling", {"min_p": 0.1, "top_k": 0}),
    TuneSetting("watermark"),
)


def make_plan(prompts: int, tokens: int) -> TunePlan:
    """Return the table; it measures what needs no other model."""
    settings = [
        TuneSetting(one.strategy, {**one.params, "max_new_tokens": tokens}) for one in SETTINGS
    ]
    texts = [TunePrompt(opening) for opening in OPENINGS[:prompts]]
    return TunePlan(texts, settings, measures=("repeats", "tokens"))


def run_whole(plan: TunePlan) -> dict[Cell, str]:
    """Run the table, and return the text of every run."""
    results = list(run_table(plan))
    assert not [result.error for result in results if result.error]
    return {result.cell: result.text for result in results}


def run_singly(plan: TunePlan) -> dict[Cell, str]:
    """Make the same runs one after another."""
    return {cell: decode_to_trace(plan.request(cell)).outputs[0].text for cell in plan.cells}


def memory_mb() -> float:
    """Return the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=24)
    arguments = parser.parse_args()
    load("storyteller")
    plan = make_plan(arguments.prompts, arguments.tokens)
    few = make_plan(1, arguments.tokens)
    assert run_whole(few) == run_singly(few)  # warms both up
    tables, singles, more = [], [], []
    for _ in range(arguments.rounds):
        before, began = memory_mb(), time.perf_counter()
        texts = run_whole(plan)
        between = time.perf_counter()
        more.append(memory_mb() - before)
        assert texts == run_singly(plan)
        tables.append(between - began)
        singles.append(time.perf_counter() - between)
    runs = len(plan.cells)
    gains = [single / table for single, table in zip(singles, tables, strict=True)]
    figures = [
        Figure(f"a table of {runs} runs, s", tables, digits=1),
        Figure("the same runs one after another, s", singles, digits=1),
        Figure("one after another ÷ the table", gains, digits=2),
        Figure("memory that a table adds to the most so far, MB", more, digits=1),
    ]
    for figure in figures:
        print(figure)
    tell("tune", figures)


if __name__ == "__main__":
    main()
