"""Runs that are held on to, and random settings to ask them about."""

from __future__ import annotations

import random
from typing import Any

from engine import DecodeRequest, decode
from engine.declare.params import Choice, Flag, Integer, Number, params_of
from engine.errors import EngineError
from engine.inspection.logits_cache import CachedRun, LogitsCache
from engine.inspection.processors import changeable_parameters
from engine.inspection.what_if import SettingsChange, apply_change, scan_run
from engine.trace.events import Failed

PLENTY = 1_000_000_000
_LIKELY = {"top_k": 60, "no_repeat_ngram_size": 4, "min_new_tokens": 12, "context_width": 3}
"""Whole numbers in whose range something changes."""
_LOW = {"epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "temperature": 3.0}
_FEW = 3


def shelf(run_bytes: int = PLENTY, most_bytes: int = PLENTY, runs: int = 100) -> LogitsCache:
    """Return an empty shelf."""
    return LogitsCache(most_bytes, run_bytes, runs)


def kept(request: DecodeRequest, on: LogitsCache | None = None) -> CachedRun:
    """Run a request to its end and return what was held on to."""
    on = on or shelf()
    run = decode(request, on.start_writer)
    *_, last = run
    if isinstance(last, Failed):
        raise last.error
    found = on.get(run.run_id)
    assert found is not None, "the run lost its place"
    return found


def rerun(run: CachedRun, request: DecodeRequest) -> tuple[int, int] | str | None:
    """Run again and return the first step of which the run wrote another token, and that token.

    None when all is the same; "fails" when it is refused, or fails before anything is another.
    """
    *_, last = decode(request)
    trace = last.trace
    for step, other in zip(run.steps, trace.steps if trace else (), strict=False):
        assert (step.keep, step.sequence) == (other.keep, other.sequence)
        if step.emit != other.emit:
            return step.index, other.emit[0]
    if isinstance(last, Failed):
        return "fails"
    assert len(run.steps) == len(trace.steps)
    return None


def foretold(run: CachedRun, change: SettingsChange) -> tuple[int, int] | str | None:
    """Return what is told of the same without running; see ``rerun``."""
    try:
        first = scan_run(run, apply_change(run, change)).first
    except EngineError:
        return "fails"
    return None if first is None else (first.step, first.token_id)


def random_settings(run: CachedRun, source: random.Random) -> dict[str, Any]:
    """Return a few parameters of a run's strategy at random values that a slider would give.

    Half of the numbers are near the run's own, so that what changes changes late.
    """
    kinds, rows = params_of(run.strategy.config), run.config.num_return_sequences
    names = [
        name
        for name in changeable_parameters(run.strategy.config)
        if isinstance(kinds[name], (Number, Integer, Flag, Choice))
        and not name.startswith(("forced", "sampling_table", "debug", "context_history"))
        and (name != "do_sample" or rows == 1)
    ]
    chosen = source.sample(names, source.randint(1, _FEW))
    return {n: _value(n, kinds[n], getattr(run.config, n), source) for n in chosen}


def _value(name: str, kind: Any, own: Any, source: random.Random) -> Any:
    if isinstance(kind, Flag):
        return source.random() < 0.5
    if isinstance(kind, Choice):
        return source.choice(kind.choices)
    high = kind.slider_maximum or kind.maximum
    if isinstance(kind, Integer):
        return source.randint(kind.minimum, min(high, _LIKELY.get(name, high)))
    least = kind.minimum + (kind.step if kind.above_minimum else 0)
    most = _LOW.get(name, high) - kind.step
    if own and source.random() < 0.5:
        return round(max(least, min(most, own * source.uniform(0.8, 1.25))), 4)
    return round(source.uniform(least, most), 4)
