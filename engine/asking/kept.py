"""The logits of recent runs at full precision, as long as there is room for them.

A run is followed from within: what the first processor of every pass is given is held on to, not
copied. On an accelerator it stays there until the run has ended.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.loops.dola import LayerContrast
from engine.models.loading import LoadedModel
from engine.run.prepare import Prepared
from engine.settings import SETTINGS
from engine.strategies.base import Strategy
from engine.trace.records import Step, Trace

KEPT, RECOMPUTED, RECORDED = "kept", "recomputed", "recorded"
"""Where logits come from: the run itself, one pass over its text, or its recorded candidates."""


@dataclass(frozen=True)
class Pass:
    """What one observation began with; tensors that nobody may write into."""

    number: int
    """Observations of the run before it; in a loop that draws, so many draws came before."""
    logits: torch.Tensor
    """(rows, vocab) float32 as the first processor saw them: raw, or log-probabilities in a search
    with several beams; -inf for tokens of which nothing is known (source RECORDED)."""
    input_ids: torch.Tensor
    """(rows, length) prompt and text so far; the decoder's alone where an encoder reads the prompt."""
    contrast: torch.Tensor | None = None
    """DoLa: (rows, vocab) what the loop's own first stage makes of them."""

    def bytes(self) -> int:
        """Return the memory it takes."""
        parts = (self.logits, self.input_ids, self.contrast)
        return sum(part.numel() * part.element_size() for part in parts if part is not None)

    def to(self, device: Any) -> Pass:
        """Return the same on another device."""
        contrast = None if self.contrast is None else self.contrast.to(device)
        return Pass(self.number, self.logits.to(device), self.input_ids.to(device), contrast)


@dataclass(eq=False)
class KeptRun:
    """A run that can be asked about; its own worker adds to it while others read.

    Attributes:
        strategy: that made it.
        config: the strategy's own, fitted to the model.
        header: its trace without steps and outputs.
        steps: as far as they have come.
        passes: by number; None where there was no room.
        seen: by step, the numbers of the passes since the step before (those of that step for
            another row of its batch).
        source: KEPT, RECOMPUTED or RECORDED.
        full: whether it was larger than its share, so that its logits are gone.
    """

    strategy: Strategy
    config: Any
    header: Trace
    steps: list[Step] = field(default_factory=list)
    passes: list[Pass | None] = field(default_factory=list)
    seen: list[range] = field(default_factory=list)
    source: str = KEPT
    full: bool = False
    model: weakref.ref[LoadedModel] | None = None

    @property
    def trace(self) -> Trace:
        """The run as a trace, as far as it has come; it has no outputs."""
        return dataclasses.replace(self.header, steps=tuple(self.steps))

    def loaded(self) -> LoadedModel | None:
        """Return the model that wrote it while it is in memory."""
        return None if self.model is None else self.model()

    def row(self, step: Step) -> int:
        """Return the row of its batch that a step wrote."""
        return 0 if self.strategy.one_by_one else step.sequence

    def pass_(self, number: int) -> Pass | None:
        """Return a pass, None where there was no room or nothing is known."""
        return self.passes[number] if number < len(self.passes) else None

    def let_go(self) -> None:
        """Forget all logits."""
        self.full = True
        self.passes.clear()

    def bytes(self) -> int:
        """Return the memory its logits take."""
        return sum(one.bytes() for one in self.passes if one is not None)


class Shelf:
    """Recent runs by id; the oldest lose their place first.

    Args:
        most_bytes: for the logits of all runs.
        run_bytes: for those of one run; a larger one keeps none.
        most_runs: at most so many runs.
    """

    def __init__(self, most_bytes: int, run_bytes: int, most_runs: int) -> None:
        self.most_bytes, self.run_bytes, self.most_runs = most_bytes, run_bytes, most_runs
        self._runs: OrderedDict[str, KeptRun] = OrderedDict()
        self._bytes: dict[str, int] = {}
        self._lock = threading.Lock()

    def follow(self, run_id: str) -> Keeper:
        """Return the witness of a new run."""
        return Keeper(self, run_id)

    def get(self, run_id: str) -> KeptRun | None:
        """Return a run, None for one that is not here (any more)."""
        return self._runs.get(run_id)

    def put(self, run_id: str, run: KeptRun) -> None:
        """Take a run in."""
        with self._lock:
            self._runs[run_id], self._bytes[run_id] = run, run.bytes()
            self._shrink()

    def bytes(self) -> int:
        """Return the memory all logits take."""
        return sum(self._bytes.values())

    def grow(self, run_id: str, one: Pass) -> None:
        """Add a pass to a run that is here; nothing happens to one that has lost its place."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            size = self._bytes[run_id] + one.bytes()
            if run.full or size > self.run_bytes:
                self._bytes[run_id] = 0
                run.let_go()
                return
            run.passes.append(one)
            self._bytes[run_id] = size
            self._shrink()

    def _shrink(self) -> None:
        while len(self._runs) > self.most_runs or self.bytes() > self.most_bytes:
            oldest, run = self._runs.popitem(last=False)
            del self._bytes[oldest]
            run.let_go()


class Keeper:
    """Puts a run on the shelf as it grows; see ``recording.Witness``."""

    def __init__(self, shelf: Shelf, run_id: str) -> None:
        self.shelf, self.run_id = shelf, run_id
        self.run: KeptRun | None = None
        self.count = self.decided_at = 0

    def began(self, run: Prepared, header: Trace) -> None:
        """Take what is known before the first step."""
        target = weakref.ref(run.target)
        self.run = KeptRun(run.strategy, run.config, header, model=target)
        self.shelf.put(self.run_id, self.run)

    def saw(self, logits: torch.Tensor, input_ids: torch.Tensor, processors: Sequence[Any]) -> None:
        """Hold on to what an observation begins with."""
        first = processors[0] if len(processors) else None
        contrast = first.contrast if isinstance(first, LayerContrast) else None
        self.shelf.grow(self.run_id, Pass(self.count, logits, input_ids, contrast))
        self.count += 1

    def decided(self, step: Step) -> None:
        """Take a step, or what was measured beside the last one."""
        if self.run is None:
            return
        if step.index < len(self.run.steps):
            self.run.steps[step.index] = step
            return
        fresh = range(self.decided_at, self.count)
        # Nothing is seen from within of a method that runs in a process of its own.
        before = self.run.seen[-1] if self.run.seen else fresh
        self.run.seen.append(fresh if fresh else before)
        self.decided_at = self.count
        self.run.steps.append(step)

    def ended(self) -> None:
        """Leave the accelerator to others; what nobody keeps any more is let go."""
        run, self.run = self.run, None
        if run is None:
            return
        run.passes[:] = [None if one is None else one.to("cpu") for one in run.passes]


KEPT_RUNS = Shelf(SETTINGS.max_kept_bytes, SETTINGS.max_kept_run_bytes, SETTINGS.max_kept_runs)
