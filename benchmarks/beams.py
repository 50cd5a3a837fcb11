"""What recording a beam search costs: tokens per second with the whole pool recorded over generate().

Both sides search for the same tokens in one process, interleaved A B A B, so that a noisy machine
disturbs both alike. Recorded speed counts until the last decision, as a trace's own timing does;
the greedy path that is decoded beside the finished search is timed apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from functools import partial
from typing import Any

import torch

from benchmarks.recording import random_135m
from benchmarks.timing import timed
from engine import DecodeRequest, LoadedModel, decode
from engine.aside import aside
from engine.trace import json_io
from engine.trace.events import Finished, StepRecorded
from engine.trace.records import Trace

TARGET_RATIO = 0.9
TARGET_BYTES = 1_500_000
PROMPT = [5, 9, 11, 4, 20, 7]


def recorded(loaded: LoadedModel, beams: int, tokens: int) -> tuple[float, float, Trace]:
    """Return seconds until the last decision, seconds until the end, and the trace."""
    request = DecodeRequest(
        "beam_search",
        loaded,
        input_ids=PROMPT,
        params={"max_new_tokens": tokens, "num_beams": beams},
    )
    started = time.perf_counter()
    searched = last = None
    for event in decode(request):
        if isinstance(event, StepRecorded):
            searched = event.step.elapsed_s
        last = event
    seconds = time.perf_counter() - started
    assert isinstance(last, Finished), last
    assert searched is not None
    return searched, seconds, last.trace


def plain(loaded: LoadedModel, beams: int, tokens: int) -> tuple[float, list[int]]:
    """Return seconds of model.generate() and its new tokens."""
    prompt = torch.tensor([PROMPT])
    generate = partial(
        loaded.model.generate,
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        num_beams=beams,
        max_new_tokens=tokens,
    )
    seconds, out = timed(generate)
    return seconds, out[0, len(PROMPT) :].tolist()


def compare(loaded: LoadedModel, beams: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Interleave both and return the ratios' median and spread."""
    recorded(loaded, beams, 3), plain(loaded, beams, 3)
    ratios, whole, greedy, speeds, trace = [], [], [], [], None
    for _ in range(rounds):
        searched, seconds, trace = recorded(loaded, beams, tokens)
        theirs, expected = plain(loaded, beams, tokens)
        assert list(trace.outputs[0].token_ids) == expected
        ratios.append(theirs / searched)
        whole.append(theirs / seconds)
        greedy.append(seconds - searched)
        speeds.append((tokens / searched, tokens / theirs))
    assert trace is not None
    return {
        "model": loaded.name,
        "beams": beams,
        "steps": len(trace.steps),
        "n": rounds,
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "ratio_with_greedy_path_median": round(statistics.median(whole), 3),
        "recorded_tokens_per_s": round(statistics.median(s[0] for s in speeds), 2),
        "plain_tokens_per_s": round(statistics.median(s[1] for s in speeds), 2),
        "greedy_path_s": round(statistics.median(greedy), 2),
        "trace_gzip_bytes": len(gzip.compress(json_io.dumps(trace).encode())),
    }


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--beams", type=int, default=8)
    arguments = parser.parse_args()
    r = compare(aside(random_135m), arguments.beams, arguments.tokens, arguments.rounds)
    print(
        f"Recording the whole pool of {r['beams']} beams against generate() without recording, "
        f"{torch.get_num_threads()} threads\n"
        f"  {r['model']} ratio {r['ratio_median']:.3f} "
        f"({r['ratio_min']:.3f}–{r['ratio_max']:.3f}, n={r['n']}), "
        f"{r['recorded_tokens_per_s']} against {r['plain_tokens_per_s']} tokens/s\n"
        "  until the very end, the greedy path beside the search included: ratio "
        f"{r['ratio_with_greedy_path_median']:.3f} ({r['greedy_path_s']} s more)\n"
        f"  trace of {r['steps']} steps {r['trace_gzip_bytes'] / 1000:.0f} kB gzip"
    )
    targets = {"target_ratio": TARGET_RATIO, "target_gzip_bytes": TARGET_BYTES}
    print(json.dumps({"benchmark": "beams", **targets, "results": [r]}))


if __name__ == "__main__":
    main()
