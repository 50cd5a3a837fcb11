"""How long a second visitor waits for a first token while one permitted run of each kind goes on."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.requests import short_request
from engine import DecodeRequest
from engine.run.visitor import Visitor
from engine.settings import SETTINGS
from engine.trace.events import Failed, Finished, StepRecorded
from tests.helpers.runs import decode_as

_LONG, _SHORT = Visitor("192.0.2.1", "long"), Visitor("192.0.2.2", "short")
_TOKENS = 20
_GOAL_S = 3.0
_SEARCH = {"num_beams": SETTINGS.max_beams}
_LARGEST: dict[str, dict[str, Any]] = {
    "beam_search": _SEARCH,
    "beam_sampling": _SEARCH,
    "diverse_beam_search": {**_SEARCH, "num_beam_groups": SETTINGS.max_beams},
    "sampling": {"num_return_sequences": SETTINGS.max_return_sequences},
    "contrastive_search": {},
    "dola": {},
    "custom": {"method": "mirostat", "arguments": {}},
    "speculative": {"do_sample": True, "plain_run": True, "distribution_runs": 2000},
}
"""Strategies whose runs take longest, with what makes them so."""


@contextmanager
def _keep_running(request: DecodeRequest) -> Iterator[None]:
    """Keep a long run going, beginning it again when it ends, until the block ends."""
    begun, ended = threading.Event(), threading.Event()

    def read() -> None:
        while not ended.is_set():
            run = decode_as(_LONG, request)
            for event in run:
                if isinstance(event, StepRecorded | Failed):
                    begun.set()
                if isinstance(event, Failed):
                    return
                if ended.is_set():
                    run.close()
            run.join()

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait()
    try:
        yield
        assert reader.is_alive(), "the long run failed"
    finally:
        ended.set()
        reader.join()


def _visit(seed: int) -> tuple[float, float]:
    """Return the seconds to the first token and to the end of a short run; infinite without them."""
    began, first = time.perf_counter(), float("inf")
    for event in decode_as(_SHORT, short_request("greedy", seed, _TOKENS)):
        if isinstance(event, StepRecorded) and first == float("inf"):
            first = time.perf_counter() - began
        if isinstance(event, Finished):
            return first, time.perf_counter() - began
    return float("inf"), float("inf")


def measure(n: int, seed: int) -> Measured:
    """Measure ``n`` visits alone, and ``n`` beside each kind of long run."""
    _visit(seed)  # the first one loads the model
    alone = [_visit(seed + number) for number in range(n)]
    figures: dict[str, float] = {}
    beside: list[tuple[float, float]] = []
    for name, more in _LARGEST.items():
        tokens = SETTINGS.max_new_tokens
        with _keep_running(short_request(name, seed, tokens, min_new_tokens=tokens, **more)):
            visits = [_visit(seed + number) for number in range(n)]
        beside += visits
        figures[f"{name}_first_token_worst_s"] = round(max(first for first, _ in visits), 3)
    return Measured(
        len(beside),
        {
            "failed": sum(end == float("inf") for _, end in (*alone, *beside)),
            "first_token_worst_s": round(max(first for first, _ in beside), 3),
            "first_token_median_s": round(statistics.median(first for first, _ in beside), 3),
            "first_token_alone_s": round(statistics.median(first for first, _ in alone), 3),
            "run_worst_s": round(max(end for _, end in beside), 3),
            "run_alone_s": round(statistics.median(end for _, end in alone), 3),
            **figures,
        },
    )


PART = Part(
    name="turns",
    title="A second visitor's run beside one permitted run of each kind (n visits)",
    goals={"failed": Goal(0), "first_token_worst_s": Goal(_GOAL_S, of_speed=True)},
    measure=measure,
    short=5,
    nightly=20,
)
