"""What runs gain that share their passes: eight sampled runs of one model at once against one after another.

Both sides make the same runs in one process, in turns, and their tokens have to be equal. Beside them stands what
passes over eight rows gain over passes of one row in this machine's torch: no way of sharing them can gain more.
"""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from benchmarks.recording import IDS, MODELS
from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode, load
from engine.loops.rows import RECOMPUTED_NOTE
from engine.models.install import install_model
from engine.run.decoding import decode_to_trace
from engine.run.jobs import JobStream
from engine.settings import SETTINGS
from engine.trace.events import Failed, Finished
from engine.trace.records import Trace

GOALS = {"storyteller": Goal(2.5, at_least=True), "smollm2": Goal(3.0, at_least=True)}


def requests_of(loaded: LoadedModel, runs: int, tokens: int) -> list[DecodeRequest]:
    """Return the runs: sampled, each with a seed of its own."""
    params = {"max_new_tokens": tokens, "min_new_tokens": tokens, "temperature": 0.9, "top_k": 50}
    return [
        DecodeRequest("sampling", loaded, input_ids=IDS, params=params, seed=seed)
        for seed in range(runs)
    ]


def together(requests: list[DecodeRequest]) -> list[Trace]:
    """Make all runs at once."""
    return [_end_of(run) for run in [decode(request) for request in requests]]


def _end_of(run: JobStream) -> Trace:
    *_, last = run
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished), last
    return last.trace


def pass_s(loaded: LoadedModel, rows: int, passes: int) -> float:
    """Return the seconds of a forward pass over the newest token of so many rows, each behind the same text."""

    def work() -> float:
        with torch.no_grad():
            cache = loaded.model(torch.tensor([IDS] * rows), use_cache=True).past_key_values
            newest = torch.tensor([IDS[-1:]] * rows)
            started = time.perf_counter()
            for _ in range(passes):
                loaded.model(newest, past_key_values=cache, use_cache=True)
            return (time.perf_counter() - started) / passes

    return timed(work)[1]


def compare(loaded: LoadedModel, runs: int, tokens: int, rounds: int) -> list[Figure]:
    """Make the runs in turns one after another and at once, and return what that took."""
    requests = requests_of(loaded, runs, tokens)
    together(requests)
    gains, limits, speeds, doubts = [], [], [], []
    for _ in range(rounds):
        started = time.perf_counter()
        expected = [decode_to_trace(request) for request in requests]
        between = time.perf_counter()
        found = together(requests)
        ended = time.perf_counter()
        for one, other in zip(expected, found, strict=True):
            assert one.outputs[0].token_ids == other.outputs[0].token_ids, one.seed
        gains.append((between - started) / (ended - between))
        limits.append(runs * pass_s(loaded, 1, tokens) / pass_s(loaded, runs, tokens))
        speeds.append(runs * tokens / (ended - between))
        doubts.append(sum(RECOMPUTED_NOTE in trace.notes for trace in found))
    about = f"{runs} sampled runs, {loaded.name}"
    return [
        Figure(f"{about}: at once ÷ one after another", gains, GOALS[loaded.name]),
        Figure(f"{about}: passes over {runs} rows ÷ {runs} passes of one", limits),
        Figure(f"{about}: at once, tokens/s", speeds, digits=1),
        Figure(f"{about}: runs with a step that was decided alone, of {runs}", doubts),
    ]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=SETTINGS.max_shared_runs)
    parser.add_argument("--tokens", type=int, default=40)
    arguments = parser.parse_args()
    install_model("smollm2", lambda what, done, total: None)
    threads = torch.get_num_threads()
    print(f"{arguments.runs} runs at once against one after another, {threads} threads")
    figures = []
    for model in map(load, MODELS):
        for figure in compare(model, arguments.runs, arguments.tokens, arguments.rounds):
            print(f"  {figure}", flush=True)
            figures.append(figure)
    tell("sharing", figures, threads=threads)


if __name__ == "__main__":
    main()
