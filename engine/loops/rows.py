"""The rows of a batch while they are decoded: their ids, which of them have ended, and their Steps."""

# pyright: reportPrivateUsage=false
# generate() keeps the prepared ids in private fields only.
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import torch
import transformers

from engine.loops.exponential_race import draw_coins, draw_noise
from engine.loops.forward import Forward
from engine.loops.host_transfer import Columns, RowValues
from engine.loops.recorder import Observation, Recorder, Row
from engine.model_code import STOPPING, ModelCall
from engine.models.model_types import GenerationConfig, Processors, StoppingCriteria
from engine.trace.records import Step

SHARED_PASSES_NOTE = (
    "Forward passes were shared with other runs: a score may differ in its last digits from that of a pass"
    " alone, and no token does."
)
RECOMPUTED_NOTE = "Steps that such a difference could have turned were decided by passes alone."
_TOKEN, _BEFORE, _AFTER = "token", "unfinished_before", "unfinished_after"


class Rows:
    """Rows that grow by one token per forward pass.

    A step is ``run_pass``, ``process``, a decision of the loop, ``append``. Shared passes, late
    reading from a GPU and the record are handled here, so that a loop shows its algorithm only.

    Args:
        forward: runs the model.
        input_ids: (batch, length) prompt ids.
        stopping_criteria: checked after every step; end-of-sequence is one of them.
        recorder: records every step.
        detail: one row's own columns -> the strategy's part of its Step.

    Attributes:
        ids: (batch, length) prompt and text so far; ended rows are padded.
        are_open: whether any row is unfinished.
        outputs: the model's outputs of the newest pass.
        logits: (batch, vocab) float32 of the last position of that pass.
    """

    outputs: Any
    logits: torch.Tensor
    observation: Observation

    def __init__(
        self,
        forward: Forward,
        input_ids: torch.Tensor,
        stopping_criteria: StoppingCriteria,
        recorder: Recorder,
        detail: Callable[[RowValues], Any],
    ) -> None:
        self.forward, self.ids, self.recorder = forward, input_ids, recorder
        self.stopping_criteria, self.detail = stopping_criteria, detail
        self.are_open = True
        self._unfinished = torch.ones(len(input_ids), dtype=torch.long, device=input_ids.device)
        self._prompt_length, self._index, self._passes = input_ids.shape[1], 0, 0
        self._is_deferred = is_reading_deferred(input_ids.device)
        self._unread: tuple[Callable[[], list[Row]], int, int] | None = None

    def run_pass(self, **extra: Any) -> Generator[Step, None, bool]:
        """Run the model on the newest tokens, and yield the Steps of the last decision.

        Args:
            extra: further inputs of the model.

        Returns:
            Whether any row is unfinished; if not, nothing is left to decide.
        """
        if not self._is_deferred:
            yield from self.read_steps()
        if not self.are_open:
            return False
        try:
            self.outputs = self.forward(self.ids, **extra)
            self.logits = self.forward.last_logits(self.outputs, self.ids.device)
        finally:
            # A GPU works on this pass meanwhile. In ``finally``: a failed pass keeps the last Steps.
            yield from self.read_steps()
        return self.are_open

    def process(
        self, processors: Processors, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run every processor in turn over the newest logits.

        Args:
            processors: logits processors in order.
            generator: draws coins of filters and the noise of the exponential race, if the token is sampled.

        Returns:
            (batch, vocab) scores, and (batch, vocab) noise or None.
        """
        logits, ids, shared = self.logits, self.ids, self.forward.shared_cache
        if shared is not None:
            shared.check_processors(processors)
        if generator is not None:
            draw_coins(processors, logits, [generator])
        if shared is None or not shared.tolerance:
            # Noise after the processors: a rerun takes the generator's state when the first one runs.
            scores = self.observe(logits, processors)
            return scores, None if generator is None else draw_noise(logits, generator)
        self.recorder.additions.add_note(SHARED_PASSES_NOTE)
        processed = self.recorder.apply_unobserved(logits, ids, processors)
        # Drawn once: a recomputed step must use the same random numbers.
        noise = None if generator is None else draw_noise(logits, generator)
        if shared.may_change_decision(processed[1], logits, processors, noise):
            self.recorder.additions.add_note(RECOMPUTED_NOTE)
            outputs = self.forward.recompute_alone(ids)
            logits, processed = self.forward.last_logits(outputs, ids.device), None
        self.observation = self.recorder.observe(logits, ids, processors, processed)
        return self.observation.scores, noise

    def observe(self, logits: torch.Tensor, processors: Processors) -> torch.Tensor:
        """Run every processor in turn over (batch, vocab) logits; return the scores."""
        self.observation = self.recorder.observe(logits, self.ids, processors)
        return self.observation.scores

    def append(self, tokens: torch.Tensor, columns: Columns) -> None:
        """Append a token to every row and check the stopping criteria.

        Args:
            tokens: (batch,) chosen tokens.
            columns: the strategy's numbers of this step, for ``detail``.
        """
        keep, before = self.ids.shape[1] - self._prompt_length, self._unfinished
        self.ids = append_tokens(self.ids, tokens, before, self.forward.generation_config)
        self._unfinished = before & ~check_stopping(self.stopping_criteria, self.ids)
        state = {_TOKEN: tokens, _BEFORE: before, _AFTER: self._unfinished}
        read = self.recorder.start_record(self.observation, tokens, keep, {**columns, **state})
        self._unread = read, keep, self.forward.passes - self._passes
        self._passes = self.forward.passes

    def read_steps(self) -> Generator[Step, None, None]:
        """Yield the Steps of the last decision, one for every row that was unfinished before it.

        The first carries the cost. Nothing is yielded twice.
        """
        if self._unread is None:
            return
        (read, keep, cost), self._unread = self._unread, None
        records = read()
        self.are_open = any(record.extra[_AFTER][0] for record in records)
        for sequence, record in enumerate(records):
            if not record.extra[_BEFORE][0]:
                continue
            yield Step(
                index=self._index,
                keep=keep,
                emit=(int(record.extra[_TOKEN][0]),),
                candidates=record.candidates,
                stages=record.stages,
                detail=self.detail(record.extra),
                logsumexp=record.logsumexp,
                entropy=record.entropy,
                forward_passes=cost,
                elapsed_s=self.recorder.elapsed_s(),
                sequence=sequence,
            )
            self._index, cost = self._index + 1, 0


@ModelCall(STOPPING)
def check_stopping(criteria: StoppingCriteria, input_ids: torch.Tensor) -> torch.Tensor:
    """Return (batch,) bools: whether the texts of (batch, length) ids end here."""
    # Criteria get no scores: transformers passes them only if output_scores is on.
    return criteria(input_ids, None)


def cut_at_stop(
    input_ids: torch.Tensor, tokens: list[int], criteria: StoppingCriteria
) -> tuple[list[int], bool]:
    """Return new tokens up to the first that ends the text, and whether one does.

    Args:
        input_ids: (1, length) text before them.
        tokens: what one pass adds.
        criteria: checked after every token: transformers checks per pass and runs past a stop string.
    """
    for count in range(1, len(tokens) + 1):
        so_far = torch.cat([input_ids, input_ids.new_tensor([tokens[:count]])], dim=-1)
        if bool(check_stopping(criteria, so_far).all()):
            return tokens[:count], True
    return tokens, False


def is_text_criterion(criterion: object) -> bool:
    """Return whether a criterion depends on the text alone, not on time or a stop."""
    of_the_text = (
        transformers.EosTokenCriteria,
        transformers.MaxLengthCriteria,
        transformers.StopStringCriteria,
    )
    return isinstance(criterion, of_the_text)


def is_reading_deferred(device: torch.device) -> bool:
    """Return whether a step is read only after the next pass has begun, as on CUDA.

    The last step then has one unused pass after it.
    """
    return device.type == "cuda"


def append_tokens(
    input_ids: torch.Tensor,
    tokens: torch.Tensor,
    unfinished: torch.Tensor,
    config: GenerationConfig,
) -> torch.Tensor:
    """Return (batch, length + 1) ids: every row with its token, finished rows padded.

    Args:
        input_ids: (batch, length) ids so far.
        tokens: (batch,) chosen tokens.
        unfinished: (batch,) 1 for an unfinished row, 0 for a finished one.
        config: the prepared config generate() passed to the loop.
    """
    # Ended rows stay in the batch, as in generate(): another batch size would round differently.
    pad = config._pad_token_tensor
    if pad is not None:
        tokens = tokens * unfinished + pad.to(tokens.device) * (1 - unfinished)
    return torch.cat([input_ids, tokens[:, None]], dim=-1)
