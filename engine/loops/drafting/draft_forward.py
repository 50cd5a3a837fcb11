"""Forward passes of a draft model over a text that may be revised, at the cost of the new part."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import inspect
import sys
from typing import Any

import torch

from engine.loops.drafting.cache_snapshot import snapshot_cache
from engine.loops.forward import make_empty_cache
from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.capabilities import capabilities_of, position_count, takes_cache
from engine.models.model_types import Model


class DraftForward:
    """A draft model with a rewindable cache, if it has one.

    A cache that can be cropped is cropped. A recurrent state is copied at the start of a round and
    restored if the text changed. Without either, the whole text is read again.

    Args:
        model: a decoder-only generation model.
        cached: whether it may use its cache.
    """

    def __init__(self, model: Model, *, cached: bool = True) -> None:
        can = capabilities_of(model)
        self.model, self.passes = model, 0
        self.crops, self.resumes = can.can_crop, can.can_restore
        self.name = can.cache_name if cached and can.can_step else None
        self.cached_ids: list[int] = []
        self.cache = self._new_cache()
        self.saved: tuple[list[int], Any] | None = None
        self.begins = True
        arguments = inspect.signature(model.forward).parameters
        # The head is needed at the last position only.
        self._extra = {"logits_to_keep": 1} if model._supports_logits_to_keep() else {}
        self._has_positions = "position_ids" in arguments
        # Some classes hand it on to their base model among further keyword arguments.
        has_switch = "use_cache" in arguments or ("kwargs" in arguments and takes_cache(model))
        self._switch = {"use_cache": self.cache is not None} if has_switch else {}

    def begin_round(self) -> None:
        """Start a round: the next ids are verified text, those after them are not."""
        self.begins = True

    @ModelCall(FORWARD_PASS)
    def logits(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return (1, vocab) float32 logits after ``input_ids`` (1, length)."""
        ids: list[int] = input_ids[0].tolist()
        self._rewind(ids)
        start = len(self.cached_ids)
        # Some recurrent states accept only one token at a time.
        single = not (self.crops or self.resumes or start == 0)
        last = len(ids) - 1 if single else start
        for place in range(start, last):
            self._read(input_ids[:, place : place + 1], place)
        outputs = self._read(input_ids[:, last:], last)
        self.cached_ids = ids if self.cache is not None else []
        if self.begins and self.cache is not None and not self.crops:
            self.saved = ids, snapshot_cache(self.cache)
        self.begins = False
        return outputs.logits[:, -1].to(dtype=torch.float32, copy=True)

    @ModelCall(FORWARD_PASS)
    def _read(self, new: torch.Tensor, start: int) -> Any:
        """Run the model on (1, n) ids at position ``start``."""
        self.passes += 1
        cache_argument = {} if self.cache is None else {str(self.name): self.cache}
        if cache_argument and not self.crops and self._has_positions:
            # A recurrent state does not know the length of the text.
            end = start + new.shape[1]
            cache_argument["position_ids"] = torch.arange(start, end, device=new.device)[None]
        return self.model(input_ids=new, **cache_argument, **self._switch, **self._extra)

    def _new_cache(self) -> Any:
        if self.name is None:
            return None
        cache = make_empty_cache(self.model)
        if self.crops:
            cache.activate_past_recording()
        return cache

    def _rewind(self, ids: list[int]) -> None:
        """Drop cached ids that differ from ``ids``; leave at least one id to read."""
        if self.cache is None or _is_extension(ids, self.cached_ids):
            return
        if self.crops:
            keep = 0
            # Without the last id, so that at least one is left to read.
            for old, new in zip(self.cached_ids, ids[:-1], strict=False):
                if old != new:
                    break
                keep += 1
            self.cache.crop(-(len(self.cached_ids) - keep))
            self.cached_ids = self.cached_ids[:keep]
        elif self.saved is not None and _is_extension(ids, self.saved[0]):
            self.cached_ids, self.cache = self.saved[0], snapshot_cache(self.saved[1])
        else:
            self.cached_ids, self.cache = [], self._new_cache()


def free_positions(model: Model, length: int) -> int:
    """Return how many tokens a model can read after ``length``."""
    # A table of learned positions has no row for what a draft would put behind its end.
    return max(0, (position_count(model) or sys.maxsize) - length)


def _is_extension(ids: list[int], cached_ids: list[int]) -> bool:
    return len(cached_ids) < len(ids) and ids[: len(cached_ids)] == cached_ids
