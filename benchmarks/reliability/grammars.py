"""How soon a hostile grammar is refused, and how much longer runs take beside one that is huge."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.about import Goal
from benchmarks.reliability.bombs import compare_visits, sending, visit
from benchmarks.reliability.cards import Measured, Part
from tests.helpers.client import Client
from tests.helpers.hostile_grammars import HUGE, UNUSABLE
from tests.helpers.server import process

_TOKENS = 5
_ENDINGS = ("complete", "error", "refused")


def _ask(client: Client, grammar: Any) -> tuple[str, str, float]:
    """Run with a grammar; return the event that ended it, what it said and the seconds it took."""
    params = {"max_new_tokens": _TOKENS, "structured_outputs": grammar}
    began = time.monotonic()
    event, data = client.call("greedy", "Once upon a time", None, params, 0)
    return event, str(data), time.monotonic() - began


def _is_refused(event: str, said: str, part: str) -> bool:
    """Return whether an answer is a sentence about the grammar."""
    return event in ("error", "refused") and part in said.replace('\\\\"', '"')


def measure(n: int, seed: int) -> Measured:
    """Serve from a separate process; refuse every hostile grammar ``n`` times, and visit beside huge ones."""
    with tempfile.TemporaryDirectory() as folder, process(Path(folder) / "log") as (url, _):
        return _measure(url, n, seed)


def _measure(url: str, n: int, seed: int) -> Measured:
    client, huge = Client(url), itertools.cycle(HUGE)
    with client.http:
        visit(client, seed)  # the first one loads the model
        alone = [visit(client, seed + i) for i in range(n)]
        answers = [(part, _ask(client, grammar)) for _ in range(n) for grammar, part in UNUSABLE]
        with sending(url, lambda other: _ask(other, next(huge))[0] in _ENDINGS) as answered:
            beside = [visit(client, seed + i) for i in range(10 * n)]
    others = [
        f"{part!r}: {said}"
        for part, (event, said, _) in answers
        if not _is_refused(event, said, part)
    ]
    seconds = sorted(took for _, (_, _, took) in answers)
    figures = {
        "not_refused": len(others),
        "refused_median_s": round(statistics.median(seconds), 3),
        "refused_worst_s": round(seconds[-1], 3),
        "huge_answered": sum(answered),
        **compare_visits(alone, beside),
    }
    return Measured(len(answers), figures, tuple(others))


PART = Part(
    name="grammars",
    title="Hostile grammars, and runs beside huge ones (n grammars refused)",
    goals={
        "failed": Goal(0),
        "not_refused": Goal(0),
        "refused_worst_s": Goal(1.0, of_speed=True),
        "run_worst_beyond_alone_s": Goal(1.0, of_speed=True),
    },
    measure=measure,
    short=1,
    nightly=10,
)
