"""Drawn sequences of loading, running, stopping and pushing models out: memory keeps its limits, tokens stay right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.requests import Alone, short_request
from engine import DecodeRequest, decode
from engine.errors import EngineError
from engine.models import loading
from engine.run import jobs, scheduler
from engine.run.decoding import DecodeRun
from engine.sources.catalogue import CATALOGUE
from engine.strategies import STRATEGIES
from tests.helpers.patience import PATIENCE_S

_LENGTHS = range(3, 9)
_WEIGHTS = (4, 2, 1, 1)
"""How often something is begun, loaded, stopped and left."""
_MOST_STEPS = 8
_LIMITS = range(1, 4)
"""Models that may be in memory; there are four of them, and a run may need two."""
_GIGABYTE = 1e9
_SEEDS = 3
_MODELS = [n for n, entry in CATALOGUE.items() if entry.embedded and entry.needs is None]


class _Sequence:
    """A few things that visitors do, one after the other and some of them at once."""

    def __init__(self, chance: random.Random, alone: Alone, counts: Counter[str]) -> None:
        self.chance, self.alone, self.counts = chance, alone, counts
        self.going: list[tuple[DecodeRequest, DecodeRun]] = []
        self.said: list[str] = []

    def go(self) -> None:
        """Do them, and wait until all that was begun has ended."""
        acts: list[Callable[[], None]] = [self._begin, self._load, self._cancel, self._leave]
        for act in self.chance.choices(acts, _WEIGHTS, k=self.chance.choice(_LENGTHS)):
            self.counts["acts"] += 1
            act()
        for request, run in self.going:
            self._end(request, run)
        jobs.stop_all_jobs(PATIENCE_S)

    def _load(self) -> None:
        """Load a model; the limit pushes others out."""
        try:
            loading.load(self.chance.choice(_MODELS))
        except EngineError as error:
            self._wrong("load", str(error))

    def _begin(self) -> None:
        strategy = self.chance.choice(list(STRATEGIES))
        request = short_request(strategy, self.chance.randrange(_SEEDS), _MOST_STEPS)
        self.going.append((request, decode(request)))

    def _cancel(self) -> None:
        """Stop a run; what it has written until then is kept."""
        if self.going:
            self.chance.choice(self.going)[1].cancel()

    def _leave(self) -> None:
        """Leave a run after a few of its events."""
        if self.going:
            _, run = self.going.pop(self.chance.randrange(len(self.going)))
            for _ in range(self.chance.randrange(4)):
                next(run, None)
            run.close()

    def _end(self, request: DecodeRequest, run: DecodeRun) -> None:
        *_, last = run
        trace = getattr(last, "trace", None)
        if run.cancelled:
            return
        self.counts["runs"] += 1
        outputs = () if trace is None else tuple(output.token_ids for output in trace.outputs)
        if outputs != self.alone.of(request):
            self._wrong("wrong_tokens", f"{request.strategy}, {getattr(last, 'error', outputs)}")

    def _wrong(self, what: str, about: str) -> None:
        self.counts[what] += 1
        self.said.append(f"{what}: {about}")


def _beyond(most: int) -> str | None:
    """Return by how much the models in memory are beyond their limits, None where they are not."""
    entries = list(loading._CACHE.values())
    used = sum(entry.loaded.memory_bytes() for entry in entries)
    if len(entries) > most:
        return f"{len(entries)} models in memory, {most} may be"
    budget = loading.SETTINGS.max_model_memory_gb * _GIGABYTE
    return f"{used} bytes of models, {budget:g} may be" if used > budget else None


def measure(n: int, seed: int) -> Measured:
    """Try ``n`` sequences, each under a drawn limit."""
    alone, counts = Alone(), Counter[str]()
    said: list[str] = []
    for strategy in STRATEGIES:
        for number in range(_SEEDS):
            alone.of(short_request(strategy, number, _MOST_STEPS))
    for number in range(n):
        chance = random.Random(f"{seed}/{number}")
        most = chance.choice(_LIMITS)
        tight = replace(loading.SETTINGS, max_loaded_models=most)
        roomy = replace(scheduler.SETTINGS, max_concurrent_runs=chance.choice((1, 2)))
        with patch.object(loading, "SETTINGS", tight), patch.object(scheduler, "SETTINGS", roomy):
            # What an earlier limit allowed is no fault of this sequence's.
            loading._CACHE.clear()
            sequence = _Sequence(chance, alone, counts)
            sequence.go()
            beyond = _beyond(most)
        said += sequence.said
        if beyond:
            counts["beyond_limits"] += 1
            said.append(f"sequence {number}: {beyond}")
    names = ("beyond_limits", "wrong_tokens", "load", "acts", "runs")
    shown = {"load": "loads_failed"}
    return Measured(n, {shown.get(name, name): counts[name] for name in names}, tuple(said))


PART = Part(
    name="memory",
    title="Models in memory under load, run, cancel and evict (n drawn sequences)",
    goals={"beyond_limits": Goal(0), "wrong_tokens": Goal(0), "loads_failed": Goal(0)},
    measure=measure,
    short=40,
    nightly=500,
)
