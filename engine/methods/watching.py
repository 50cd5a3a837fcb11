"""What can be seen of a method from outside, while it runs: forward passes, processors, and what it streams.

A hook sees every call of the model: which ids it reads, how long the cache was, which logits came out. From
the ids follows the text at every pass, and from two texts what was decided between them: tokens that were
added, and tokens that were taken back. Whatever passes through a LogitsProcessorList shows its stages. None
of it changes a number or draws one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import torch

from engine.errors import DecodeError
from engine.loops.recorder import Observation, Recorder, Row, display_name
from engine.methods.held_rows import following_rows, held_rows, note_rows
from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Step

Send = Callable[[Step], None]
_MOST_SEEN = 16
"""Texts whose processed distributions are kept until the next step."""
_KEPT_ROWS = 64
"""Positions of a pass whose logits are kept: as many as a draft may have that it checks, not a prompt's."""


class ForwardWatch:
    """Makes the steps of a run from what a hook sees.

    Args:
        recorder: makes the records.
        prompt: ids that stand before the output: the prompt, or a decoder's start token.
        encoder_decoder: whether the model's own ids are those of its decoder.
        send: takes each step as soon as it is known.
        ends: ids that end the text; what fills up its row after one, while others go on, is no part of it.

    Attributes:
        passes: forward passes so far.
        start: tokens of the text that stand before the output: more than the prompt's where the method
            put some before it.
    """

    def __init__(
        self,
        recorder: Recorder,
        prompt: list[int],
        encoder_decoder: bool,
        send: Send,
        ends: Iterable[int] = (),
    ) -> None:
        self._ends = frozenset(ends)
        self.recorder, self.send = recorder, send
        self._ids = "decoder_input_ids" if encoder_decoder else "input_ids"
        self.start = len(prompt)
        self._text = list(prompt)
        self._logits: torch.Tensor | None = None
        self._first = 0
        self._seen: dict[tuple[int, ...], Observation] = {}
        self._texts: list[list[int]] = []
        self._aside = False
        self._since: list[ForwardPass] = []
        self._declared = 0
        self._steps = 0
        self.passes = 0

    @contextmanager
    def on(self, model: Any) -> Any:
        """Watch a model and all lists of processors until the block ends."""
        import transformers

        lists: Any = transformers.LogitsProcessorList
        original = lists.__call__
        hooks = (
            model.register_forward_pre_hook(self._before, with_kwargs=True),
            model.register_forward_hook(self._after, with_kwargs=True),
        )

        own = threading.get_ident()

        def call(processors: Any, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != own:  # a list of somebody else
                return original(processors, input_ids, scores, **kwargs)
            return self._processed(original, processors, input_ids, scores, **kwargs)

        lists.__call__ = call
        try:
            with following_rows():
                yield
        finally:
            lists.__call__ = original
            for hook in hooks:
                hook.remove()

    def put(self, value: torch.Tensor) -> None:
        """Be a streamer: count the tokens that the method declares, the prompt among them."""
        self._declared += value.numel()

    def end(self) -> None:
        """Be a streamer that has nothing to close."""

    def close(self, ids: list[int]) -> None:
        """Take the text that the method returned; what was decided last follows from it.

        Args:
            ids: of its first row, the prompt included.
        """
        ids = self._ended(ids)
        # Where it gave the model another text to read, all of what it returned is new.
        kept = max(_common(self._text, ids), min(self.start, len(ids)))
        if len(ids) > kept or len(self._text) > kept or self._since:
            self._step(kept, ids[kept:])
        self._text = list(ids)

    def _before(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        del module
        ids = kwargs.get(self._ids)
        if ids is None and args and isinstance(args[0], torch.Tensor):
            ids = args[0]
        cache = kwargs.get("past_key_values")
        self._cached = _length(cache)
        if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
            self._aside, self._read, self._rows, self._dropped = True, 0, 0, 0
            self._texts = []
            return
        self._rows, self._read = ids.shape
        held = held_rows(cache) or [self._text] * self._rows
        self._texts = [
            [*before[: self._cached], *row] for before, row in zip(held, ids.tolist(), strict=False)
        ]
        text = self._texts[0]
        if self.passes == self._steps == 0:
            self._begin(text)
        text = self._ended(text)
        kept = _common(self._text, text)
        self._aside = kept < self.start
        if self._aside:
            # Not the text: a part of it, or another that the method compares it with.
            self._dropped = 0
            return
        self._dropped = len(self._text) - kept
        if len(text) > kept:
            self._step(kept, text[kept:])
        self._text = text
        # A text that has ended is read no more: the pass is there for the others of its batch.
        self._aside = len(text) < len(self._texts[0]) and not self._dropped

    def _begin(self, text: list[int]) -> None:
        """Find where the output begins in the first text that the model reads."""
        prompt = self._text
        if text[: len(prompt)] != prompt:
            # Something was put before the prompt, or it reads another prompt.
            self.start, self._text = len(text), list(text)

    def _ended(self, text: list[int]) -> list[int]:
        """Return a text without what follows its end."""
        new = enumerate(text[self.start :], self.start + 1)
        return text[: next((place for place, token in new if token in self._ends), len(text))]

    def _after(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        del module, args
        self.passes += 1
        cache = kwargs.get("past_key_values")
        note_rows(getattr(output, "past_key_values", None) if cache is None else cache, self._texts)
        logits = getattr(output, "logits", None)
        if not self._aside:
            self._logits = None
        whole = len(self._texts[0]) == len(self._text) if self._texts else False
        if isinstance(logits, torch.Tensor) and logits.dim() == 3 and whole and not self._aside:
            # Of the first row; row i of it was read at position first + i of the text. A copy, as a
            # method may write into its own.
            self._logits = logits[0, -_KEPT_ROWS:].detach().clone()
            self._first = len(self._text) - len(self._logits)
        self._since.append(
            ForwardPass(
                self._rows,
                self._read,
                self._cached,
                self._dropped,
                len(self._text),
                self.recorder.elapsed_s(),
                self._aside,
            )
        )

    def _processed(
        self, original: Any, processors: Any, input_ids: Any, scores: Any, **kwargs: Any
    ) -> Any:
        """Apply a list as it would be, one processor at a time, and keep what each returned of the first row."""
        single = type(processors)
        raw, stages = scores[:1].detach().float().clone(), []
        for processor in processors:
            scores = original(single([processor]), input_ids, scores, **kwargs)
            stages.append((display_name(processor), scores[:1].detach().float().clone()))
        total = torch.logsumexp(raw, dim=-1)
        while len(self._seen) >= _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        if isinstance(input_ids, torch.Tensor) and input_ids.dim() == 2:
            self._seen[tuple(input_ids[0].tolist())] = Observation(
                raw - total[:, None], total, stages[-1][1] if stages else raw, stages
            )
        return scores

    def _step(self, kept: int, new: list[int]) -> None:
        """Send what was decided since the last step.

        Args:
            kept: tokens of the text that stand.
            new: what follows them; may be none where tokens were only taken back.
        """
        row = self._row(kept, new)
        step = Step(
            self._steps,
            max(kept - self.start, 0),
            tuple(new),
            row.candidates if row else (),
            row.stages if row else (),
            ForwardDetail(tuple(self._since), self._declared),
            row.logsumexp if row else 0.0,
            row.entropy if row else 0.0,
            len(self._since),
            self.recorder.elapsed_s(),
        )
        self._since, self._declared = [], 0
        self._seen.clear()
        self._steps += 1
        self.send(step)

    def _row(self, kept: int, new: list[int]) -> Row | None:
        """Return the record of the distribution that the first token was decided by, None where none was seen."""
        # Of branches that were tried, those of the text that stands.
        seen = self._seen.get(tuple(self._text[:kept])) or self._observed(kept)
        if seen is None or not new:
            return None
        chosen = torch.tensor([new[0]], device=seen.logprobs.device)
        try:
            [row] = self.recorder.record(seen, chosen, self._steps)
        except DecodeError:
            return None  # numbers that are none are the method's own affair
        return row

    def _observed(self, position: int) -> Observation | None:
        """Return what the model said of the token at a position, None where no pass covers it."""
        if self._logits is None or not 0 <= position - 1 - self._first < len(self._logits):
            return None
        logits = self._logits[position - 1 - self._first][None].float()
        total = torch.logsumexp(logits, dim=-1)
        return Observation(logits - total[:, None], total, logits, [])


def _common(first: list[int], second: list[int]) -> int:
    """Return how many ids two texts have in common before they part."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _length(cache: Any) -> int:
    """Return the tokens that a cache holds, 0 for none."""
    if cache is None or not hasattr(cache, "get_seq_length"):
        return 0
    return int(cache.get_seq_length())
