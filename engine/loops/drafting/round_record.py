"""The plain record of a round of drafting and verification."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from engine.loops.drafting.draft_tree import ROOT
from engine.loops.drafting.drafter import Draft, Drafter, RunContext
from engine.loops.host_transfer import Columns, RowValues
from engine.loops.optional_measurements import OptionalMeasurements
from engine.loops.recorder import Observation, Recorder, round_decimals, round_significant
from engine.timing_noise import work_time
from engine.trace.details import DraftDetail, DraftNode, DraftToken
from engine.trace.records import Step

if TYPE_CHECKING:
    from engine.loops.drafting.assisted import TargetForward
    from engine.loops.drafting.tree_forward import TreeForward

RESIDUAL_TOKENS = 8


@dataclass(frozen=True)
class RoundVerification:
    """The outcome of verifying a draft.

    Attributes:
        accepted: number of accepted drafted tokens.
        final: the token after them.
        source: resampled, bonus or target.
        p: (n,) the target's probability of each drafted token; NaN where a tree's was not asked for.
        q: (n,) the draft model's, None if it gives none.
        u: (n,) uniform numbers compared with p / q, None in greedy verification.
        residual: (vocab,) the distribution of the final token.
        path: draft trees: the accepted nodes.
    """

    accepted: int
    final: int
    source: str
    p: torch.Tensor
    q: torch.Tensor | None
    u: torch.Tensor | None
    residual: torch.Tensor
    path: tuple[int, ...] = ()

    def written(self, guess: Draft) -> list[int]:
        """Return the accepted tokens of a draft and the one after them."""
        nodes = range(self.accepted) if guess.tree is None else self.path
        return [*(int(guess.tokens[node]) for node in nodes), self.final]


@dataclass(frozen=True)
class DraftRound:
    """One round of drafting and verification.

    Attributes:
        emitted: tokens added to the text.
        draft_s, verify_s: seconds.
        drafter: name of the drafter.
    """

    guess: Draft
    outcome: RoundVerification
    emitted: list[int]
    draft_s: float
    verify_s: float
    drafter: str


AfterRun = Callable[[OptionalMeasurements, RunContext, dict[str, Any], "torch.Tensor", Step], Step]
"""(measurements, run, model_kwargs at its start, (1, length) ids, last step) -> the step with a report."""


class RoundWriter:
    """Times the rounds of a run and turns each into a Step.

    Args:
        recorder: makes the records.
        context: the run.
        drafter: drafts.
        target: counts the forward passes.
    """

    step: Step

    def __init__(
        self,
        recorder: Recorder,
        context: RunContext,
        drafter: Drafter,
        target: TargetForward | TreeForward,
    ) -> None:
        self.recorder, self.context, self.drafter, self.target = recorder, context, drafter, target
        self._index = self._keep = self._passes = 0
        self._observations: list[Observation] = []

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return the draft that follows ``input_ids`` (1, length); a round begins."""
        self._began, self._observations = work_time(), []
        guess = self.drafter.draft(input_ids)
        self._drafted = work_time()
        return guess

    def process(self, logits: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
        """Run the processors at every drafted position and the one after.

        Args:
            logits: (drafted + 1, vocab) of the target.
            candidate: (1, length) text and draft.
        """
        start = candidate.shape[1] - len(logits) + 1
        return torch.cat(
            [self.observe(row, candidate[:, : start + i]) for i, row in enumerate(logits)]
        )

    def observe(self, logits: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Return the (1, vocab) processed scores after (1, length) text, a place of the round, in order."""
        place = self.recorder.observe(logits[None], text, self.context.processors)
        self._observations.append(place)
        return place.scores

    def make_step(self, guess: Draft, outcome: RoundVerification, emitted: list[int]) -> Step:
        """Return the Step of the round; its candidates are those of the last emitted token."""
        verify_s = work_time() - self._drafted
        name, draft_s = self.drafter.name, self._drafted - self._began
        this = DraftRound(guess, outcome, emitted, draft_s, verify_s, name)
        self.recorder.additions.add_note(self.drafter.note)
        place, last = self._observations[len(emitted) - 1], self._keep + len(emitted) - 1
        chosen = torch.tensor([emitted[-1]], device=place.scores.device)
        row = self.recorder.record(place, chosen, last, _verification_columns(outcome))[0]
        passes, self._passes = self.target.passes - self._passes, self.target.passes
        self.step = Step(
            index=self._index,
            keep=self._keep,
            emit=tuple(emitted),
            candidates=row.candidates,
            stages=row.stages,
            detail=draft_detail(this, row.extra),
            logsumexp=row.logsumexp,
            entropy=row.entropy,
            forward_passes=passes,
            elapsed_s=self.recorder.elapsed_s(),
        )
        self._index, self._keep = self._index + 1, self._keep + len(emitted)
        return self.step

    def measure(
        self, after: AfterRun | None, input_ids: torch.Tensor, prepared: dict[str, Any]
    ) -> Generator[Step, None, None]:
        """Yield the last Step again with a report on the finished text, if one is wanted."""
        if after is not None:
            run = self.recorder.additions, self.context, prepared
            yield after(*run, input_ids, self.step)


def _verification_columns(outcome: RoundVerification) -> Columns:
    """Return the columns copied to the host with the step; q and u only if present."""
    top = outcome.residual.topk(min(RESIDUAL_TOKENS, outcome.residual.shape[-1]))
    found = {
        "p": outcome.p,
        "q": outcome.q,
        "u": outcome.u,
        "residual_ids": top.indices,
        "residual": top.values,
    }
    return {name: values[None] for name, values in found.items() if values is not None}


def draft_detail(this: DraftRound, numbers: RowValues) -> DraftDetail:
    """Return the plain record of a round from its numbers on the host.

    If the text ends inside the draft (end-of-sequence, stop string, budget), ``final_source`` is
    "ended" and the rest of the draft is unverified.
    """
    guess, outcome = this.guess, this.outcome
    ended = len(this.emitted) <= outcome.accepted
    pairs = zip(numbers["residual_ids"], numbers["residual"], strict=True)
    return DraftDetail(
        draft_length=len(guess.tokens),
        requested_length=guess.requested,
        length_reason=guess.reason,
        tokens=_make_draft_tokens(this, numbers, ended),
        final_token_id=this.emitted[-1],
        final_source="ended" if ended else outcome.source,
        residual=() if ended else tuple((int(i), round_significant(p)) for i, p in pairs if p > 0),
        draft_forwards=guess.forwards,
        draft_s=round_decimals(this.draft_s),
        verify_s=round_decimals(this.verify_s),
        match=guess.match,
        draft_own=guess.own,
        reencoded=guess.reencoded,
        lost=guess.lost,
        exit_layer=guess.exit_layer,
        threshold=None if guess.threshold is None else round_significant(guess.threshold),
        drafter=this.drafter,
        tree=_make_tree(this, numbers),
    )


def _make_draft_tokens(this: DraftRound, numbers: RowValues, ended: bool) -> tuple[DraftToken, ...]:
    """Return the drafted tokens with their numbers; of a tree, those of the branch that was followed."""
    nodes = tuple(range(len(this.guess.tokens)))
    accepted = min(this.outcome.accepted, len(this.emitted))
    statuses = ["accepted"] * accepted + ["unverified"] * (len(nodes) - accepted)
    if accepted < len(nodes) and not ended:
        statuses[accepted] = "rejected"
    if this.guess.tree is not None:
        nodes = this.outcome.path[:accepted]
        wrong = [] if ended else this.guess.tree.children(nodes[-1] if nodes else ROOT)
        # The most probable guess stands for those that were rejected with it.
        nodes, statuses = (*nodes, *wrong[:1]), ["accepted"] * accepted + ["rejected"]
    return tuple(
        _make_draft_token(this, numbers, node, status)
        for node, status in zip(nodes, statuses, strict=False)
    )


def _make_draft_token(this: DraftRound, numbers: RowValues, node: int, status: str) -> DraftToken:
    q, u = numbers.get("q"), numbers.get("u")
    return DraftToken(
        int(this.guess.tokens[node]),
        round_significant(numbers["p"][node]),
        None if q is None else round_significant(q[node]),
        None if u is None else round_significant(u[node]),
        status,
    )


def _make_tree(this: DraftRound, numbers: RowValues) -> tuple[DraftNode, ...]:
    """Return the nodes of a tree with their probabilities and fates; empty without a tree."""
    tree = this.guess.tree
    if tree is None:
        return ()
    path = this.outcome.path[: len(this.emitted)]
    # The tokens of the round were chosen after the text and after each node but the last of these.
    asked = {ROOT, *path[: len(this.emitted) - 1]}
    return tuple(
        DraftNode(
            token_id,
            None if parent == ROOT else parent,
            round_significant(numbers["q"][node]),
            round_significant(numbers["p"][node]) if parent in asked else None,
            "accepted" if node in path else "rejected" if parent in asked else "unverified",
        )
        for node, (token_id, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True))
    )
