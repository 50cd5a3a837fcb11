"""A cache of the full-precision logits of recent runs.

It keeps references to what the first processor of every pass receives, without copying. On an
accelerator the tensors stay there until the run ends.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.loops.dola import LayerContrast
from engine.models.loading import LoadedModel
from engine.models.model_types import Processors
from engine.run.preparation import Prepared
from engine.settings import SETTINGS
from engine.strategies.base import Strategy
from engine.trace.records import Step, Trace

CACHED, RECOMPUTED, RECORDED = "kept", "recomputed", "recorded"
"""Sources of logits: the run itself, one pass over its text, or its recorded candidates."""


@dataclass(frozen=True)
class CachedPass:
    """The inputs of one observation. The tensors must not be written to."""

    number: int
    """Number of earlier observations, which in a sampling loop is the number of earlier draws."""
    logits: torch.Tensor
    """(rows, vocab) float32 that the first processor received.

    Logits, or log-probabilities in a search with several beams; -inf for unknown tokens (source
    RECORDED).
    """
    input_ids: torch.Tensor
    """(rows, length) prompt and text so far; only the decoder's for encoder-decoder models."""
    contrast: torch.Tensor | None = None
    """DoLa: (rows, vocab) output of the loop's own first stage."""

    def count_bytes(self) -> int:
        """Return its size in memory, bytes."""
        parts = (self.logits, self.input_ids, self.contrast)
        return sum(part.numel() * part.element_size() for part in parts if part is not None)

    def to(self, device: torch.device | str) -> CachedPass:
        """Return a copy on another device."""
        contrast = None if self.contrast is None else self.contrast.to(device)
        return CachedPass(self.number, self.logits.to(device), self.input_ids.to(device), contrast)


@dataclass(eq=False)
class CachedRun:
    """A run with its cached logits; its worker appends while others read.

    Attributes:
        strategy: the strategy of the run.
        config: the strategy's config, adjusted to the model.
        header: the run's trace without steps and outputs.
        steps: the steps so far.
        passes: passes by number; None if not cached.
        passes_of_step: by step, the numbers of the passes since the previous step. Rows of one batch share
            them.
        source: CACHED, RECOMPUTED or RECORDED.
        full: whether the logits were dropped because the run exceeded its limit.
        model: weak reference to the run's model.
    """

    strategy: Strategy
    config: Any
    header: Trace
    steps: list[Step] = field(default_factory=list)
    passes: list[CachedPass | None] = field(default_factory=list)
    passes_of_step: list[range] = field(default_factory=list)
    source: str = CACHED
    full: bool = False
    # Weak: the cache must not keep a model in memory.
    model: weakref.ref[LoadedModel] | None = None

    @property
    def trace(self) -> Trace:
        """The run so far as a trace, without outputs."""
        return dataclasses.replace(self.header, steps=tuple(self.steps))

    def get_model(self) -> LoadedModel | None:
        """Return the run's model while it is in memory, else None."""
        return None if self.model is None else self.model()

    def batch_row(self, step: Step) -> int:
        """Return the batch row that a step belongs to."""
        return 0 if self.strategy.one_by_one else step.sequence

    def get_pass(self, number: int) -> CachedPass | None:
        """Return a pass, None if it is not cached."""
        return self.passes[number] if number < len(self.passes) else None

    def drop_logits(self) -> None:
        """Drop all logits."""
        self.full = True
        self.passes.clear()

    def count_bytes(self) -> int:
        """Return the size of its logits, bytes."""
        return sum(one.count_bytes() for one in self.passes if one is not None)


class LogitsCache:
    """A cache of recent runs by id; the oldest are evicted first.

    Args:
        most_bytes: limit for the logits of all runs.
        run_bytes: limit for one run; the logits of a larger one are dropped.
        most_runs: maximum number of runs.
    """

    def __init__(self, most_bytes: int, run_bytes: int, most_runs: int) -> None:
        self.most_bytes, self.run_bytes, self.most_runs = most_bytes, run_bytes, most_runs
        self._runs: OrderedDict[str, CachedRun] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._lock = threading.Lock()

    def start_writer(self, run_id: str) -> CacheWriter:
        """Return the writer that caches a new run."""
        return CacheWriter(self, run_id)

    def get(self, run_id: str) -> CachedRun | None:
        """Return a run, None if it is not cached."""
        return self._runs.get(run_id)

    def put(self, run_id: str, run: CachedRun) -> None:
        """Add a complete run."""
        with self._lock:
            self._runs[run_id], self._bytes[run_id] = run, run.count_bytes()
            self._evict_oldest()

    def count_bytes(self) -> int:
        """Return the size of all logits, bytes."""
        return sum(self._bytes.values())

    def append_pass(self, run_id: str, one: CachedPass) -> None:
        """Append a pass to a run; does nothing for an evicted run."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            size = self._bytes[run_id] + one.count_bytes()
            if run.full or size > self.run_bytes:
                self._bytes[run_id] = 0
                run.drop_logits()
                return
            run.passes.append(one)
            self._bytes[run_id] = size
            self._evict_oldest()

    def _evict_oldest(self) -> None:
        while len(self._runs) > self.most_runs or self.count_bytes() > self.most_bytes:
            oldest, run = self._runs.popitem(last=False)
            del self._bytes[oldest]
            run.drop_logits()


class CacheWriter:
    """Writes a run to the cache while it is decoded; see ``run.recording``."""

    def __init__(self, shelf: LogitsCache, run_id: str) -> None:
        self.shelf, self.run_id = shelf, run_id
        self.run: CachedRun | None = None
        self.count = self.decided_at = 0

    def on_start(self, run: Prepared, header: Trace) -> None:
        """Create the cached run from what is known before the first step."""
        target = weakref.ref(run.target)
        self.run = CachedRun(run.strategy, run.config, header, model=target)
        self.shelf.put(self.run_id, self.run)

    def on_logits(
        self, logits: torch.Tensor, input_ids: torch.Tensor, processors: Processors
    ) -> None:
        """Store the inputs of an observation."""
        first = processors[0] if len(processors) else None
        contrast = first.contrast if isinstance(first, LayerContrast) else None
        self.shelf.append_pass(self.run_id, CachedPass(self.count, logits, input_ids, contrast))
        self.count += 1

    def on_step(self, step: Step) -> None:
        """Append a step, or replace the last one when it was measured again."""
        if self.run is None:
            return
        if step.index < len(self.run.steps):
            self.run.steps[step.index] = step
            return
        fresh = range(self.decided_at, self.count)
        # A custom method in its own process makes no observations here.
        before = self.run.passes_of_step[-1] if self.run.passes_of_step else fresh
        self.run.passes_of_step.append(fresh if fresh else before)
        self.decided_at = self.count
        self.run.steps.append(step)

    def on_end(self) -> None:
        """Move the logits to the CPU, which frees the accelerator."""
        run, self.run = self.run, None
        if run is None:
            return
        run.passes[:] = [None if one is None else one.to("cpu") for one in run.passes]


LOGITS_CACHE = LogitsCache(
    SETTINGS.max_kept_bytes, SETTINGS.max_kept_run_bytes, SETTINGS.max_kept_runs
)
