"""Observes a method from outside: its forward passes, its logits processors and its streamer.

A hook on the model sees the ids of every pass, the cache length and the logits. The ids give the
text at every pass; two texts give the tokens added and rolled back between them. A patched
LogitsProcessorList shows the stages. Nothing changes a number or draws a random one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import DecodeError
from engine.loops.recorder import Observation, Recorder, Row, display_name
from engine.models.model_types import Model, Outputs, Processor
from engine.models.text import common_prefix_length
from engine.sandbox.cache_rows import get_row_ids, set_row_ids, track_cache_rows
from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Step

if TYPE_CHECKING:
    import transformers

StepCallback = Callable[[Step], None]
_MAX_OBSERVATIONS = 16
"""Most texts whose processed distributions are kept until the next step."""
_MAX_LOGIT_ROWS = 64
"""Last positions of a pass whose logits are kept: enough to check a draft, without the prompt's."""


class ForwardWatch:
    """Builds the steps of a run from observed forward passes.

    Args:
        recorder: makes the records.
        prompt: ids before the output: the prompt, or a decoder's start token.
        encoder_decoder: whether the text is the decoder's input.
        send: receives each step as soon as it is known.
        ends: end tokens; what pads a row after one is not part of the text.

    Attributes:
        passes: number of forward passes so far.
        start: tokens before the output; more than the prompt's if the method added some.
        detach: while attached: stops observing, as another run may use the model; returns what
            observes again.
    """

    detach: Callable[[], Callable[[], None]]

    def __init__(
        self,
        recorder: Recorder,
        prompt: list[int],
        encoder_decoder: bool,
        send: StepCallback,
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
    def attach(self, model: Model) -> Any:
        """Observe a model and all processor lists until the block ends."""
        end = self._install(model)

        def detach() -> Callable[[], None]:
            end()

            def attach_again() -> None:
                nonlocal end
                end = self._install(model)

            return attach_again

        self.detach = detach
        try:
            yield
        finally:
            end()

    def _install(self, model: Model) -> Callable[[], None]:
        """Install the hooks and patches; return what removes them."""
        import transformers

        lists: Any = transformers.LogitsProcessorList
        original = lists.__call__
        own = threading.get_ident()

        def call(
            processors: list[Processor],
            input_ids: torch.Tensor,
            scores: torch.Tensor,
            **kwargs: Any,
        ) -> Any:
            if threading.get_ident() != own:  # another thread's list
                return original(processors, input_ids, scores, **kwargs)
            return self._run_processors(original, processors, input_ids, scores, **kwargs)

        with ExitStack() as held:
            for hook in (
                model.register_forward_pre_hook(self._before_forward, with_kwargs=True),
                model.register_forward_hook(self._after_forward, with_kwargs=True),
            ):
                held.callback(hook.remove)
            held.enter_context(track_cache_rows())
            # Patched, not passed in: processors given to generate() would run before the warpers.
            held.callback(setattr, lists, "__call__", original)
            lists.__call__ = call
            return held.pop_all().close

    def put(self, value: torch.Tensor) -> None:
        """Streamer interface: count the tokens that the method streams, the prompt's included."""
        self._declared += value.numel()

    def end(self) -> None:
        """Streamer interface: nothing to close."""

    def close(self, ids: list[int]) -> None:
        """Send the last step, from the text that the method returned.

        Args:
            ids: its first row, prompt included.
        """
        ids = self._cut_at_end(ids)
        # If the model read another text, everything returned is new.
        kept = max(common_prefix_length(self._text, ids), min(self.start, len(ids)))
        if len(ids) > kept or len(self._text) > kept or self._since:
            self._send_step(kept, ids[kept:])
        self._text = list(ids)

    def _before_forward(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: Mapping[str, Any]
    ) -> None:
        del module
        ids = kwargs.get(self._ids)
        if ids is None and args and isinstance(args[0], torch.Tensor):
            ids = args[0]
        cache = kwargs.get("past_key_values")
        self._cached = _cache_length(cache)
        if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
            self._aside, self._read, self._rows, self._dropped = True, 0, 0, 0
            self._texts = []
            return
        self._rows, self._read = ids.shape
        held = get_row_ids(cache) or [self._text] * self._rows
        self._texts = [
            [*before[: self._cached], *row] for before, row in zip(held, ids.tolist(), strict=False)
        ]
        text = self._texts[0]
        if self.passes == self._steps == 0:
            self._find_start(text)
        text = self._cut_at_end(text)
        kept = common_prefix_length(self._text, text)
        self._aside = kept < self.start
        if self._aside:
            # Not this text: a part of it, or one that the method compares it with.
            self._dropped = 0
            return
        self._dropped = len(self._text) - kept
        if len(text) > kept:
            self._send_step(kept, text[kept:])
        self._text = text
        # After its end the text is only read for the other rows of the batch.
        self._aside = len(text) < len(self._texts[0]) and not self._dropped

    def _find_start(self, text: list[int]) -> None:
        """Set where the output begins, from the first text that the model reads."""
        prompt = self._text
        if text[: len(prompt)] != prompt:
            # The method put tokens before the prompt, or the model reads another prompt.
            self.start, self._text = len(text), list(text)

    def _cut_at_end(self, text: list[int]) -> list[int]:
        """Return a text without the tokens after its end."""
        new = enumerate(text[self.start :], self.start + 1)
        return text[: next((place for place, token in new if token in self._ends), len(text))]

    def _after_forward(
        self,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: Mapping[str, Any],
        output: Outputs,
    ) -> None:
        del module, args
        self.passes += 1
        cache = kwargs.get("past_key_values")
        # A method may continue with another row, so every cache carries the ids of its rows.
        set_row_ids(
            getattr(output, "past_key_values", None) if cache is None else cache, self._texts
        )
        logits = getattr(output, "logits", None)
        if not self._aside:
            self._logits = None
        whole = len(self._texts[0]) == len(self._text) if self._texts else False
        if isinstance(logits, torch.Tensor) and logits.dim() == 3 and whole and not self._aside:
            # Row i was read at text position first + i. A copy, as a method may modify its logits.
            self._logits = logits[0, -_MAX_LOGIT_ROWS:].detach().clone()
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

    def _run_processors(
        self,
        original: Any,
        processors: list[Processor],
        input_ids: torch.Tensor,
        scores: torch.Tensor,
        **kwargs: Any,
    ) -> Any:
        """Apply a list one processor at a time and keep each result of the first row."""
        # Copies: a processor or the method itself may write to the scores later.
        single = type(processors)
        raw, stages = scores[:1].detach().float().clone(), []
        for processor in processors:
            scores = original(single([processor]), input_ids, scores, **kwargs)
            stages.append((display_name(processor), scores[:1].detach().float().clone()))
        total = torch.logsumexp(raw, dim=-1)
        while len(self._seen) >= _MAX_OBSERVATIONS:
            # A dictionary keeps its order, so this is the oldest.
            del self._seen[next(iter(self._seen))]
        if isinstance(input_ids, torch.Tensor) and input_ids.dim() == 2:
            # By its text, because a method may run the processors on branches that it drops again.
            self._seen[tuple(input_ids[0].tolist())] = Observation(
                raw - total[:, None], total, stages[-1][1] if stages else raw, stages
            )
        return scores

    def _send_step(self, kept: int, new: list[int]) -> None:
        """Send what was decided since the last step.

        Args:
            kept: number of tokens that remain.
            new: tokens added after them; empty if tokens were only rolled back.
        """
        row = self._record_row(kept, new)
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
        # The next step needs new observations: old ones may have the same text and other settings.
        self._seen.clear()
        self._steps += 1
        self.send(step)

    def _record_row(self, kept: int, new: list[int]) -> Row | None:
        """Return the record of the first new token's distribution, None if none was observed."""
        # A method may try several branches; this is the one with the kept text.
        seen = self._seen.get(tuple(self._text[:kept])) or self._observe(kept)
        if seen is None or not new:
            return None
        chosen = torch.tensor([new[0]], device=seen.logprobs.device)
        try:
            [row] = self.recorder.record(seen, chosen, self._steps)
        except DecodeError:
            return None  # NaN logits are the method's own affair
        return row

    def _observe(self, position: int) -> Observation | None:
        """Return the model's distribution at a position, None if no pass covers it."""
        if self._logits is None or not 0 <= position - 1 - self._first < len(self._logits):
            return None
        logits = self._logits[position - 1 - self._first][None].float()
        total = torch.logsumexp(logits, dim=-1)
        return Observation(logits - total[:, None], total, logits, [])


def _cache_length(cache: transformers.Cache | None) -> int:
    """Return the number of tokens in a cache, 0 for none."""
    if cache is None or not hasattr(cache, "get_seq_length"):
        return 0
    return int(cache.get_seq_length())
