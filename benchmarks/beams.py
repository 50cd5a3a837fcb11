"""What recording a beam search costs: tokens per second with the whole pool recorded over generate().

Both sides search for the same tokens in one process, interleaved A B A B, so that a noisy machine
disturbs both alike. Recorded time counts until whoever reads the events has the last step; the greedy
path that is decoded beside the finished search is timed apart.
"""

from __future__ import annotations

import argparse
import gzip
import time
from functools import partial

import torch

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from benchmarks.recording import IDS, MODELS
from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode, load
from engine.models.install import install_model
from engine.trace import json_io
from engine.trace.events import Finished, StepRecorded
from engine.trace.records import Trace

GOAL = Goal(1.0, at_least=True)
MOST_KB = Goal(1500)


def recorded(loaded: LoadedModel, beams: int, tokens: int) -> tuple[float, float, Trace]:
    """Return seconds until the last step, seconds until the end, and the trace."""
    request = DecodeRequest(
        "beam_search",
        loaded,
        input_ids=IDS,
        params={"max_new_tokens": tokens, "num_beams": beams},
    )
    started = time.perf_counter()
    searched, last = 0.0, None
    for event in decode(request):
        if isinstance(event, StepRecorded):
            searched = time.perf_counter() - started
        last = event
    seconds = time.perf_counter() - started
    assert isinstance(last, Finished), last
    return searched, seconds, last.trace


def plain(loaded: LoadedModel, beams: int, tokens: int) -> tuple[float, list[int]]:
    """Return seconds of model.generate() and its new tokens."""
    prompt = torch.tensor([IDS])
    generate = partial(
        loaded.model.generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        num_beams=beams,
        max_new_tokens=tokens,
    )
    seconds, out = timed(generate)
    return seconds, out[0, len(IDS) :].tolist()


def compare(loaded: LoadedModel, beams: int, tokens: int, rounds: int) -> list[Figure]:
    """Interleave both and return what they took of one another."""
    recorded(loaded, beams, 3), plain(loaded, beams, 3)
    ratios, whole, speeds, sizes = [], [], [], []
    for _ in range(rounds):
        searched, seconds, trace = recorded(loaded, beams, tokens)
        theirs, expected = plain(loaded, beams, tokens)
        assert list(trace.outputs[0].token_ids) == expected
        ratios.append(theirs / searched)
        whole.append(theirs / seconds)
        speeds.append(tokens / searched)
        sizes.append(len(gzip.compress(json_io.dumps(trace).encode())) / 1000)
    about = f"{beams} beams, {loaded.name}"
    return [
        Figure(f"{about}: recorded until the last step ÷ generate()", ratios, GOAL),
        Figure(f"{about}: the same with the greedy path beside the search", whole),
        Figure(f"{about}: recorded, tokens/s", speeds, digits=1),
        Figure(f"{about}: trace of {tokens} steps, kB gzip", sizes[-1:], MOST_KB, digits=1),
    ]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--beams", type=int, default=8)
    arguments = parser.parse_args()
    install_model("smollm2", lambda what, done, total: None)
    threads = torch.get_num_threads()
    print(
        f"Recording the whole pool of {arguments.beams} beams against generate(), {threads} threads"
    )
    figures = []
    for model in map(load, MODELS):
        for figure in compare(model, arguments.beams, arguments.tokens, arguments.rounds):
            print(f"  {figure}", flush=True)
            figures.append(figure)
    tell("beams", figures, threads=threads)


if __name__ == "__main__":
    main()
