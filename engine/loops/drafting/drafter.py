"""Shared by all drafters: the draft of a round and the schedule of its length."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch

from engine.loops.drafting.confidence import ADAPTIVE, CONSTANT, ConfidenceThreshold
from engine.loops.drafting.draft_forward import DraftForward, free_positions
from engine.loops.drafting.draft_tree import DraftTree
from engine.loops.exponential_race import draw_tokens
from engine.loops.special_ids import eos_ids
from engine.messages import Message
from engine.models.model_types import Model

NAN_NOTE = "The draft model's scores became NaN: where they did, nothing was drafted."
ADAPTIVE_SCHEDULES = ("heuristic", "heuristic_transient")


@dataclass
class Draft:
    """The proposed tokens of one round.

    Attributes:
        tokens: (n,) ids of the target's vocabulary.
        scores: (n, vocab) processed logits the tokens were chosen from, or None.
        requested: most tokens this round could have.
        reason: a sentence that explains the length of the draft.
        forwards: forward passes of the draft model.
        match: prompt lookup: (n-gram length, position of the match, tokens copied).
        own: universal: pieces of the draft model's own tokens.
        reencoded: universal: the target ids of the draft.
        lost: universal: drafted text that was dropped.
        exit_layer: early exit: layers used.
        threshold: adaptive confidence: the draft ended after a token less probable than this.
        tree: draft trees: the nodes, whose tokens are ``tokens``.
    """

    tokens: torch.Tensor
    scores: torch.Tensor | None
    requested: int
    reason: str
    forwards: int = 0
    match: tuple[int, int, int] | None = None
    own: tuple[str, ...] = ()
    reencoded: tuple[int, ...] = ()
    lost: str = ""
    exit_layer: int | None = None
    threshold: float | None = None
    tree: DraftTree | None = None


@dataclass(frozen=True)
class RunContext:
    """The parts of a run that a drafter may use."""

    model: Any
    input_ids: torch.Tensor
    processors: Any
    generation_config: Any
    generator: torch.Generator
    stopping: Any = ()

    @property
    def do_sample(self) -> bool:
        """Whether tokens are sampled."""
        return bool(self.generation_config.do_sample)

    @property
    def weight(self) -> float | None:
        """Share of the target in the mixture that judges drafts; None if the target judges alone."""
        return getattr(self.generation_config, "assistant_ensemble_weight", None)

    @property
    def max_length(self) -> int:
        """Longest sequence, prompt included."""
        return int(self.generation_config.max_length)

    @property
    def eos_token_ids(self) -> set[int]:
        """End-of-sequence ids."""
        return set(eos_ids(self.generation_config))


class Drafter:
    """Proposes the next tokens; one instance per run.

    Attributes:
        note: sentence for the run's trace, or empty.
    """

    name = ""
    note = ""
    reads_states = False
    """Whether it drafts from the target's last states: the loop then calls ``learn_states``."""

    def learn_states(self, states: torch.Tensor, length: int) -> None:
        """Receive the (1, n, width) last states of the n verified tokens up to a length."""
        del states, length

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return the draft that follows ``input_ids`` (1, length)."""
        raise NotImplementedError

    def learn_outcome(self, accepted: int, drafted: int) -> None:
        """Receive a round's outcome; drafters with a schedule adapt their length."""
        del accepted, drafted


MakeDrafter = Callable[[RunContext], Drafter]


class DraftLengthSchedule:
    """Draft length: constant, or plus 2 after full acceptance and minus 1 after a rejection.

    Args:
        length: tokens of the first round.
        kind: constant, heuristic or heuristic_transient. The last two are the same, since every run
            has its own schedule.
    """

    def __init__(self, length: int, kind: str) -> None:
        self.length, self.kind = length, kind
        self.change = ""

    def update(self, accepted: int, drafted: int) -> None:
        """Adapt to a round in which ``accepted`` of ``drafted`` tokens were accepted."""
        if self.kind not in ADAPTIVE_SCHEDULES:
            return
        before = self.length
        # transformers writes the length into the draft's config, where the next run finds it.
        self.length = self.length + 2 if accepted == drafted else max(1, self.length - 1)
        self.change = (
            Message(
                "{by}: {why}",
                by=f"{self.length - before:+d}",
                why="everything was accepted" if accepted == drafted else "a token was rejected",
            )
            if self.length != before
            else ""
        )

    def explain_length(self, drafted: int, stop: str) -> str:
        """Return the sentence that explains a draft of ``drafted`` tokens."""
        if not self.change:
            return Message("asked for {n}; drafted {m}: {why}", n=self.length, m=drafted, why=stop)
        return Message(
            "asked for {n} ({change}); drafted {m}: {why}",
            n=self.length,
            change=self.change,
            m=drafted,
            why=stop,
        )


class ModelDrafter(Drafter):
    """Drafts with a model, token by token; subclasses choose the vocabulary.

    Settings come from the run's configuration: num_assistant_tokens, its schedule, and
    assistant_confidence_threshold (a draft ends after a token less probable than that).

    Args:
        context: the run.
        model: a decoder-only generation model.
        cached: whether the model may use its cache.
        confidence: constant, or adaptive, which tunes a threshold above 0 to the rounds so far.
    """

    nothing_allowed = "no token is allowed here"

    def __init__(
        self,
        context: RunContext,
        model: Model,
        *,
        cached: bool = True,
        confidence: str = CONSTANT,
    ) -> None:
        config = context.generation_config
        self.context, self.forward = context, DraftForward(model, cached=cached)
        self.schedule = DraftLengthSchedule(
            config.num_assistant_tokens, config.num_assistant_tokens_schedule
        )
        # transformers tunes it if scikit-learn is installed; a run only if it is asked to.
        threshold = config.assistant_confidence_threshold or 0.0
        self.threshold = ConfidenceThreshold(threshold, adaptive=confidence == ADAPTIVE)

    def learn_outcome(self, accepted: int, drafted: int) -> None:
        """Adapt the draft length to a round's outcome, counted in target tokens."""
        self.schedule.update(accepted, drafted)
        self.threshold.update(accepted)

    def _draft_for_target(
        self,
        input_ids: torch.Tensor,
        own_length: int,
        scores_after: Callable[[list[int]], torch.Tensor],
    ) -> Draft:
        """Return a draft in the target's vocabulary.

        Args:
            input_ids: (1, length) text in the target's ids.
            own_length: its length in the draft model's ids.
            scores_after: drafted tokens -> (1, target vocab) processed scores.
        """
        self.forward.begin_round()
        # The last token of the budget is the target's own.
        room = self.context.max_length - input_ids.shape[1] - 1
        free = free_positions(self.forward.model, own_length)
        limit = min(self.schedule.length, room, free)
        before, ends = self.forward.passes, self.context.eos_token_ids
        tokens, scores, stop = self._draft_tokens(
            limit, scores_after, ends, do_sample=self.context.do_sample
        )
        reason = self.schedule.explain_length(len(tokens), stop)
        forward_passes = self.forward.passes - before
        drafted = input_ids.new_tensor(tokens)
        threshold = self.threshold.value if self.threshold.adaptive else None
        return Draft(
            drafted,
            scores,
            self.schedule.length,
            reason,
            forwards=forward_passes,
            threshold=threshold,
        )

    def _draft_tokens(
        self,
        limit: int,
        scores_after: Callable[[list[int]], torch.Tensor],
        ends: Collection[int],
        *,
        do_sample: bool,
    ) -> tuple[list[int], torch.Tensor | None, str]:
        """Draft up to ``limit`` tokens.

        Args:
            limit: most tokens; none if not positive.
            scores_after: drafted tokens -> (1, vocab) processed scores.
            ends: ids that end the draft.
            do_sample: sample, or take the most probable token.

        Returns:
            The tokens; (n, vocab) scores they were chosen from, or None; and why the draft ended.
        """
        tokens: list[int] = []
        rows: list[torch.Tensor] = []
        stop = "all that was asked for" if limit == self.schedule.length else "the token budget"
        while len(tokens) < limit:
            scores = scores_after(tokens)
            most = float(scores.max())  # NaN if any score is NaN
            if math.isnan(most):
                stop, self.note = "its scores became NaN", NAN_NOTE
                break
            if most == -math.inf:
                stop = self.nothing_allowed
                break
            token = choose_token(scores, do_sample, self.context.generator)
            tokens.append(token)
            rows.append(scores)
            confidence = self.threshold.add_token(scores, token)
            if token in ends:
                stop = "it ends the text"
                break
            if confidence < self.threshold.value:
                stop = Message(
                    "confidence {value} fell below {threshold}",
                    value=f"{confidence:.2f}",
                    threshold=f"{self.threshold.value:.4g}",
                )
                break
        return tokens, torch.cat(rows) if rows else None, stop


def with_drafted_tokens(ids: torch.Tensor, tokens: list[int]) -> torch.Tensor:
    """Return (1, length + n) ids with the drafted tokens appended."""
    return torch.cat([ids, ids.new_tensor([tokens])], dim=-1)


def choose_token(scores: torch.Tensor, do_sample: bool, generator: torch.Generator) -> int:
    """Return the next draft token of (1, vocab) scores."""
    return int(draw_tokens(scores, generator)[0]) if do_sample else int(scores.argmax(-1))


def is_sampling_filter(processor: object) -> bool:
    """Return whether a processor acts only when tokens are sampled; its class is named so."""
    return type(processor).__name__.endswith("LogitsWarper")
