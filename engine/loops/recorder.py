"""Turns the tensors of a step into plain records with one packed device-to-host copy.

Probabilities are always over the whole vocabulary, never renormalised over the top tokens.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from engine.errors import DecodeError
from engine.loops.candidate_columns import rank_tokens, select_columns
from engine.loops.entropy import MIN_LOGPROB, compute_entropy, fast_exp
from engine.loops.host_transfer import Columns, RowValues, start_transfer
from engine.loops.optional_measurements import OptionalMeasurements
from engine.messages import Message
from engine.model_code import ModelCall
from engine.processors.scores import IMPOSSIBLE_SCORE
from engine.timing_noise import work_time
from engine.trace.records import Candidate, Stage

DIGITS = 6


_LOOP_PREFIX = "extra."
"""Prefix of the loop's own columns."""
_STATE_PREFIX = "state."


def round_decimals(value: float) -> float:
    """Round to 6 decimals, which keeps sums exact to 1e-5 over 20 steps."""
    return round(value, DIGITS)


def round_significant(value: float) -> float:
    """Round to 6 significant digits, so that a small probability never becomes 0."""
    return float(f"{value:.{DIGITS}g}")


Stages = list[tuple[str, "torch.Tensor"]]
"""Name and (batch, vocab) output of every processor that ran."""


@dataclass
class Observation:
    """Logits of one position and the output of every processor; short-lived tensors."""

    logprobs: torch.Tensor
    """(batch, vocab) the model's own log-probabilities."""
    logsumexp: torch.Tensor
    """(batch,) of the raw logits."""
    scores: torch.Tensor
    """(batch, vocab) output of the last processor."""
    stages: Stages
    states: dict[int, torch.Tensor] = field(default_factory=dict[int, "torch.Tensor"])
    """Index of a stage -> (batch,) its filter's own number of this step; see ``Stage.state``."""


@dataclass(frozen=True)
class Row:
    """The plain record of one row of a batch."""

    candidates: tuple[Candidate, ...]
    stages: tuple[Stage, ...]
    logsumexp: float
    entropy: float
    extra: RowValues
    """The loop's own columns."""


def make_observation(logits: torch.Tensor, scores: torch.Tensor, stages: Stages) -> Observation:
    """Return the observation of (batch, vocab) raw logits and the processors' output."""
    logsumexp = torch.logsumexp(logits, dim=-1)
    return Observation(logits - logsumexp[:, None], logsumexp, scores, stages)


def display_name(processor: object) -> str:
    """Return a processor's class name without its suffix."""
    name = type(processor).__name__
    for suffix in ("LogitsProcessor", "LogitsWarper", "Processor"):
        name = name.removesuffix(suffix)
    return name or type(processor).__name__


def run_processors(
    processors: Iterable[Callable[..., torch.Tensor]],
    input_ids: torch.Tensor,
    logits: torch.Tensor,
) -> tuple[torch.Tensor, Stages]:
    """Run logits processors one by one; return the last one's output and every stage.

    Args:
        processors: in order.
        input_ids: (batch, length) ids so far.
        logits: (batch, vocab), not modified.

    Raises:
        DecodeError: a processor failed on scores that an earlier one had made unusable.
        ModelCodeError: a processor failed in another way.
    """
    scores, stages = logits, list[tuple[str, torch.Tensor]]()
    for processor in processors:
        name = display_name(processor)
        own = type(processor).__module__.startswith("transformers.")
        with _filter_call(name):
            try:
                # Other processors may write into their argument; transformers' own never do.
                scores = processor(input_ids, scores if own else scores.clone())
            except (ValueError, RuntimeError, IndexError):
                _check_usable(logits, stages, name)
                raise
        stages.append((name, scores))
    return scores, stages


@lru_cache(maxsize=64)
def _filter_call(name: str) -> ModelCall:
    return ModelCall(Message("the filter {name}", name=name))


def _check_usable(logits: torch.Tensor, stages: Stages, name: str) -> None:
    """Raise DecodeError if a filter got scores that are not finite, or no token at all."""
    if bool(logits.isnan().any() | logits.isposinf().any()):
        raise DecodeError(
            "The model's raw logits are not finite, and {name} cannot go on with them.", name=name
        ) from None
    for before, scores in stages:
        if bool(scores.isnan().any()):
            template = "The scores became NaN in {before}, and {name} cannot go on with them."
        elif bool(scores.isposinf().any()):
            template = "The scores became infinite in {before}, and {name} cannot go on with them."
        elif bool(scores.isneginf().all(-1).any()):
            template = "{before} removed every token, and {name} needs at least one."
        else:
            continue
        raise DecodeError(template, before=before, name=name) from None


ObservationListener = Callable[["torch.Tensor", "torch.Tensor", Sequence[Any]], None]
"""Called with (rows, vocab) logits, (rows, length) ids and processors; it may keep them."""


class Recorder:
    """Records the steps of one run.

    Args:
        top_candidates: candidates recorded per step, at least 1.
        watch: callback for the inputs of every observation, or None.

    Attributes:
        additions: runs the optional measurements of the run.
    """

    def __init__(self, top_candidates: int = 20, watch: ObservationListener | None = None) -> None:
        self.top_candidates = top_candidates
        self.watch = watch
        self.additions = OptionalMeasurements()
        self.started = work_time()

    def elapsed_s(self) -> float:
        """Return the seconds since the recorder was created, without pauses for other runs."""
        return round_decimals(work_time() - self.started)

    def observe(
        self,
        logits: torch.Tensor,
        input_ids: torch.Tensor,
        processors: Sequence[Callable[..., torch.Tensor]],
        processed: tuple[torch.Tensor, Stages] | None = None,
    ) -> Observation:
        """Run the processors one by one and keep the output of each.

        Args:
            logits: (batch, vocab) float32 raw logits; not modified.
            input_ids: (batch, length) ids so far.
            processors: logits processors in order.
            processed: result of ``apply_unobserved`` for these logits, if it was already computed.

        Raises:
            DecodeError: see ``run_processors``.
        """
        if processed is None:
            processed = self.apply_processors(logits, input_ids, processors)
        elif self.watch is not None:
            self.watch(logits, input_ids, processors)
        scores, stages = processed
        observed = make_observation(logits, scores, stages)
        for index, processor in enumerate(processors):
            state = getattr(processor, "stage_state", None)
            if state is not None:
                observed.states[index] = state
        return observed

    def apply_processors(
        self,
        logits: torch.Tensor,
        input_ids: torch.Tensor,
        processors: Sequence[Callable[..., torch.Tensor]],
    ) -> tuple[torch.Tensor, Stages]:
        """Return the last processor's output and every stage; see ``observe``."""
        if self.watch is not None:
            self.watch(logits, input_ids, processors)
        return self.apply_unobserved(logits, input_ids, processors)

    def apply_unobserved(
        self,
        logits: torch.Tensor,
        input_ids: torch.Tensor,
        processors: Sequence[Callable[..., torch.Tensor]],
    ) -> tuple[torch.Tensor, Stages]:
        """Do the same as ``apply_processors`` without notifying ``watch``."""
        return run_processors(processors, input_ids, logits)

    def record(
        self, observed: Observation, chosen: torch.Tensor, step: int, extra: Columns | None = None
    ) -> list[Row]:
        """Turn an observation into plain rows with one copy to the host.

        Args:
            observed: result of ``observe``.
            chosen: (batch,) the emitted ids.
            step: index for error messages.
            extra: the loop's own columns, sent in the same copy.

        Raises:
            DecodeError: the raw logits are not finite, or every token was removed.
        """
        return self.start_record(observed, chosen, step, extra)()

    def start_record(
        self, observed: Observation, chosen: torch.Tensor, step: int, extra: Columns | None = None
    ) -> Callable[[], list[Row]]:
        """Start ``record``; return a function that waits for its rows and raises its errors."""
        own = {_LOOP_PREFIX + name: values for name, values in (extra or {}).items()}
        columns = {**_record_columns(observed, chosen, self.top_candidates), **own}
        names = [name for name, _ in observed.stages]
        arrive, top = start_transfer(columns), self.top_candidates
        return lambda: [make_row(row, names, step, top) for row in arrive()]


def _record_columns(observed: Observation, chosen: torch.Tensor, top: int) -> Columns:
    """Return the columns of a step's record.

    ``ids`` holds the raw ranking, the chosen token and, if a processor ran, the processed ranking.
    The columns raw, processed, other_ranks and removed follow the same order; without processors
    there is no processed and no removed.
    """
    logprobs = observed.logprobs
    # Never renormalised over the top tokens: a recorded probability is the model's own.
    probs = logprobs.exp()
    best = logprobs.topk(min(top, logprobs.shape[-1]), dim=-1)
    columns = {"logsumexp": observed.logsumexp, "entropy": compute_entropy(logprobs, probs)}
    columns |= {f"{_STATE_PREFIX}{index}": state for index, state in observed.states.items()}
    ids, others = best.indices, chosen[:, None]
    if observed.stages:
        stages, final = stage_statistics(observed, probs)
        others = torch.cat([others, final.topk(best.indices.shape[-1], -1).indices], dim=-1)
        ids = torch.cat([ids, others], dim=-1)
        removed = observed.stages[-1][1].gather(-1, ids) <= IMPOSSIBLE_SCORE
        columns |= stages
        columns |= {
            "processed": final.gather(-1, ids).masked_fill(removed, -torch.inf),
            "removed": first_removal(observed, ids),
        }
    else:
        ids = torch.cat([ids, others], dim=-1)
    own = logprobs.gather(-1, others)
    return columns | {
        "ids": ids,
        "raw": torch.cat([best.values, own], dim=-1),
        "other_ranks": rank_tokens(logprobs, best.values, own),
    }


def stage_statistics(
    observed: Observation, probs: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return (batch, stages) statistics and the final (batch, vocab) log-probabilities.

    The statistics are kept tokens, kept probability mass and entropy. A removed token is -inf, or
    the smallest float32 if its processor writes that.
    """
    kept, mass, entropy = list[torch.Tensor](), list[torch.Tensor](), list[torch.Tensor]()
    final = observed.logprobs
    for number, (_, scores) in enumerate(observed.stages, 1):
        left = scores > IMPOSSIBLE_SCORE
        # Clamped because exp is slow where it underflows; see ``fast_exp``.
        raised = scores.clamp_min(scores.amax(-1, keepdim=True) + MIN_LOGPROB)
        final = scores - torch.logsumexp(raised, dim=-1, keepdim=True)
        kept.append(left.sum(-1))
        mass.append(torch.where(left, probs, 0.0).sum(-1))
        # The next stage may keep only tiny ones of these, so only the last uses ``fast_exp``.
        probs = fast_exp(final) if number == len(observed.stages) else final.exp()
        entropy.append(compute_entropy(final, probs))
    if not observed.stages:
        return {}, final
    named = {"kept": kept, "kept_mass": mass, "stage_entropy": entropy}
    return {name: torch.stack(values, -1) for name, values in named.items()}, final


def first_removal(observed: Observation, ids: torch.Tensor) -> torch.Tensor:
    """Return, per candidate, the index of the first stage that removed it, or -1."""
    removed = torch.full_like(ids, -1)
    for index, (_, scores) in reversed(list(enumerate(observed.stages))):
        removed = torch.where(scores.gather(-1, ids) <= IMPOSSIBLE_SCORE, index, removed)
    return removed


def make_row(numbers: RowValues, names: list[str], step: int, top: int) -> Row:
    """Return the plain record of one row.

    Args:
        numbers: one row of the columns, the loop's own included.
        names: of the processors that ran.
        step: index for error messages.
        top: most candidates.
    """
    [logsumexp], [entropy] = numbers["logsumexp"], numbers["entropy"]
    if not math.isfinite(logsumexp):
        raise DecodeError("The model's raw logits are not finite at step {step}.", step=step + 1)
    return Row(
        _make_candidates(numbers, names, top),
        _make_stages(numbers, names, step) if names else (),
        round_decimals(logsumexp),
        round_decimals(entropy),
        {k.removeprefix(_LOOP_PREFIX): v for k, v in numbers.items() if k.startswith(_LOOP_PREFIX)},
    )


def _make_stages(numbers: RowValues, names: list[str], step: int) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    columns = (numbers[name] for name in ("kept", "kept_mass", "stage_entropy"))
    for index, (name, kept, mass, entropy) in enumerate(zip(names, *columns, strict=True)):
        if kept == 0:
            raise DecodeError(
                "{name} removed every token at step {step}.", name=name, step=step + 1
            )
        # True for NaN only.
        if entropy != entropy:
            raise DecodeError(
                "The scores became NaN in {name} at step {step}.", name=name, step=step + 1
            )
        state = numbers.get(f"{_STATE_PREFIX}{index}")
        stages.append(
            Stage(
                name,
                int(kept),
                round_significant(min(mass, 1.0)),
                round_decimals(entropy),
                None if state is None else round_decimals(state[0]),
            )
        )
    return tuple(stages)


def _make_candidates(numbers: RowValues, names: list[str], top: int) -> tuple[Candidate, ...]:
    """Return the recorded candidates, most probable after all processors first."""
    ids = [int(token_id) for token_id in numbers["ids"]]
    raw = numbers["raw"]
    processed = numbers["processed"] if names else raw
    removed = numbers["removed"] if names else (-1.0,) * len(ids)
    ranked = len(ids) - len(numbers["other_ranks"])
    ranks = [*range(ranked), *numbers["other_ranks"]]
    candidates = (
        Candidate(
            ids[i],
            round_decimals(raw[i]),
            round_decimals(processed[i]),
            int(ranks[i]),
            None if removed[i] < 0 else names[int(removed[i])],
        )
        for i in select_columns(ids, processed, ranked, top)
    )
    return tuple(sorted(candidates, key=lambda c: (-c.processed_logprob, -c.raw_logprob, c.rank)))
