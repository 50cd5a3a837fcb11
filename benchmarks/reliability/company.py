"""Seeded runs of all strategies, many at once, beside others that are stopped: each must equal itself alone."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import patch

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.requests import Alone, Tokens, short_request, tokens_of
from engine import DecodeRequest, decode
from engine.errors import EngineError
from engine.run import turn_taking
from engine.strategies import STRATEGIES

_SEEDS = 10
"""Different runs of a strategy; more of them are the same again in other company."""
_AT_ONCE = 12
_LET_IN = 3
"""Runs that may compute at one time, as those of different models do."""
_STOPPED = 0.2


def requests_of(n: int) -> list[DecodeRequest]:
    """Return ``n`` short requests: every strategy in turn, with few seeds."""
    names = list(STRATEGIES)
    places = [divmod(number, len(names)) for number in range(n)]
    return [short_request(names[which], turn % _SEEDS) for turn, which in places]


def _crowded(request: DecodeRequest, chance: random.Random) -> Tokens | str:
    """Run a request; sometimes another of its kind is begun before it and left after a few events."""
    if chance.random() < _STOPPED:
        with_company = decode(replace(request, seed=request.seed + 1))
        for _ in range(chance.randrange(4)):
            next(with_company, None)
        with_company.close()
    try:
        return tokens_of(request)
    except EngineError as error:
        return str(error)


def measure(n: int, seed: int) -> Measured:
    """Run every request alone, then all of them at once in a drawn order."""
    alone, requests = Alone(), requests_of(n)
    expected = [alone.of(request) for request in requests]
    chance = random.Random(seed)
    order = chance.sample(range(n), n)
    chances = [random.Random(f"{seed}/{number}") for number in order]
    roomy = replace(turn_taking.SETTINGS, max_concurrent_runs=_LET_IN)
    with patch.object(turn_taking, "SETTINGS", roomy), ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(_crowded, [requests[number] for number in order], chances))
    pairs = [(number, tokens) for number, tokens in zip(order, found, strict=True)]
    wrong = [(requests[i], got) for i, got in pairs if got != expected[i]]
    failed = [f"{request.strategy}, seed {request.seed}: {got}" for request, got in wrong]
    figures = {
        "unequal": len(wrong),
        "failed": sum(isinstance(got, str) for _, got in wrong),
        "strategies": len({request.strategy for request in requests}),
        "at_once": min(n, _AT_ONCE),
        **{
            f"unequal_{name}": count
            for name, count in Counter(r.strategy for r, _ in wrong).items()
        },
    }
    return Measured(n, figures, tuple(failed))


PART = Part(
    name="company",
    title="Seeded runs under load against the same runs alone (n runs)",
    goals={"unequal": Goal(0)},
    measure=measure,
    short=120,
    nightly=1000,
)
