"""What a dial map costs, compared with one run and with a run at each stop of a slider.

Processor seconds of this process, with one thread of torch. A sweep of the slider is 191 runs; it is reckoned
from the run, as all of them do the same work. Each round has another seed.
"""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks.figures import Figure, tell
from engine import DecodeRequest, map_dial
from engine.run.decoding import decode_to_trace

LOW, HIGH, STEP = 0.1, 2.0, 0.01
STOPS = [round(LOW + i * STEP, 2) for i in range(round((HIGH - LOW) / STEP) + 1)]
FILTERS: dict[str, dict[str, float]] = {
    "no filter": {"top_k": 0},
    "top-k 50": {"top_k": 50},
    "top-p 0.9": {"top_k": 0, "top_p": 0.9},
}
PROMPT = "One day, a little boy found a"


def compare(about: str, filters: dict[str, float], tokens: int, rounds: int) -> list[Figure]:
    """Map the temperature for several seeds and return what it costs."""
    runs, maps, rows, texts, missed = [], [], [], [], []
    for seed in range(rounds + 1):
        params = {"max_new_tokens": tokens, **filters}
        request = DecodeRequest("sampling", prompt=PROMPT, params=params, seed=seed)
        began = time.process_time()
        decode_to_trace(request)
        between = time.process_time()
        *_, found = map_dial(request, "temperature", LOW, HIGH)
        ended = time.process_time()
        if seed == 0:
            # The first run also loads the model.
            continue
        runs.append(between - began)
        maps.append(ended - between)
        rows.append(found.forward_rows)
        texts.append(len(found.intervals))
        hit = {found.intervals.index(found.interval_at(stop)) for stop in STOPS}
        missed.append(len(found.intervals) - len(hit))
    sweeps = [len(STOPS) * run / one for run, one in zip(runs, maps, strict=True)]
    return [
        Figure(f"{about}: a map, processor s", maps, digits=2),
        Figure(f"{about}: one run, processor s", runs, digits=2),
        Figure(f"{about}: {len(STOPS)} runs ÷ the map", sweeps, digits=1),
        Figure(f"{about}: forward rows of a map", rows, digits=0),
        Figure(f"{about}: texts", texts, digits=0),
        Figure(f"{about}: texts that {len(STOPS)} runs miss", missed, digits=0),
    ]


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = []
    for about, filters in FILTERS.items():
        for figure in compare(about, filters, arguments.tokens, arguments.rounds):
            print(f"  {figure}", flush=True)
            figures.append(figure)
    tell("dial_map", figures, threads=1)


if __name__ == "__main__":
    main()
