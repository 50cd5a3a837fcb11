"""The plain record of a round of drafting and verification."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.loops.drafting.drafter import Draft
from engine.loops.host_transfer import Columns, RowValues
from engine.loops.recorder import Observation, Recorder, round_decimals, round_significant
from engine.trace.details import DraftDetail, DraftToken
from engine.trace.records import Step

RESIDUAL_TOKENS = 8


@dataclass(frozen=True)
class RoundVerification:
    """The outcome of verifying a draft.

    Attributes:
        accepted: number of accepted drafted tokens.
        final: the token after them.
        source: resampled, bonus or target.
        p: (n,) the target's probability of each drafted token.
        q: (n,) the draft model's, None if it gives none.
        u: (n,) uniform numbers compared with p / q, None in greedy verification.
        residual: (vocab,) the distribution of the final token.
    """

    accepted: int
    final: int
    source: str
    p: torch.Tensor
    q: torch.Tensor | None
    u: torch.Tensor | None
    residual: torch.Tensor


@dataclass(frozen=True)
class DraftRound:
    """One round of drafting and verification.

    Attributes:
        emitted: tokens added to the text.
        draft_s, verify_s: seconds.
        drafter: name of the drafter.
        passes: forward passes of the target.
    """

    guess: Draft
    judgement: RoundVerification
    emitted: list[int]
    draft_s: float
    verify_s: float
    drafter: str
    passes: int = 1


def make_round_step(
    index: int, keep: int, this: DraftRound, place: Observation, recorder: Recorder
) -> Step:
    """Return the Step of a round.

    Args:
        index: of the step.
        keep: new tokens before the round.
        this: the round.
        place: observation of the last emitted token, whose candidates are recorded.
        recorder: makes the record with one copy to the host.
    """
    chosen = torch.tensor([this.emitted[-1]], device=place.scores.device)
    last = keep + len(this.emitted) - 1
    row = recorder.record(place, chosen, last, _verification_columns(this.judgement))[0]
    return Step(
        index=index,
        keep=keep,
        emit=tuple(this.emitted),
        candidates=row.candidates,
        stages=row.stages,
        detail=draft_detail(this, row.extra),
        logsumexp=row.logsumexp,
        entropy=row.entropy,
        forward_passes=this.passes,
        elapsed_s=recorder.elapsed_s(),
    )


def _verification_columns(judgement: RoundVerification) -> Columns:
    """Return the columns copied to the host with the step; q and u only if present."""
    top = judgement.residual.topk(min(RESIDUAL_TOKENS, judgement.residual.shape[-1]))
    found = {
        "p": judgement.p,
        "q": judgement.q,
        "u": judgement.u,
        "residual_ids": top.indices,
        "residual": top.values,
    }
    return {name: values[None] for name, values in found.items() if values is not None}


def draft_detail(this: DraftRound, numbers: RowValues) -> DraftDetail:
    """Return the plain record of a round from its numbers on the host.

    If the text ends inside the draft (end-of-sequence, stop string, budget), ``final_source`` is
    "ended" and the rest of the draft is unverified.
    """
    guess, judgement = this.guess, this.judgement
    ended = len(this.emitted) <= judgement.accepted
    pairs = zip(numbers["residual_ids"], numbers["residual"], strict=True)
    return DraftDetail(
        draft_length=len(guess.tokens),
        requested_length=guess.requested,
        length_reason=guess.reason,
        tokens=_make_draft_tokens(this, numbers, ended),
        final_token_id=this.emitted[-1],
        final_source="ended" if ended else judgement.source,
        residual=() if ended else tuple((int(i), round_significant(p)) for i, p in pairs if p > 0),
        draft_forwards=guess.forwards,
        draft_s=round_decimals(this.draft_s),
        verify_s=round_decimals(this.verify_s),
        match=guess.match,
        draft_own=guess.own,
        reencoded=guess.reencoded,
        lost=guess.lost,
        exit_layer=guess.exit_layer,
        drafter=this.drafter,
    )


def _make_draft_tokens(this: DraftRound, numbers: RowValues, ended: bool) -> tuple[DraftToken, ...]:
    """Return every drafted token with its numbers and status."""
    n, judgement = len(this.guess.tokens), this.judgement
    p, q, u = numbers["p"], numbers.get("q"), numbers.get("u")
    accepted = min(judgement.accepted, len(this.emitted))
    statuses = ["accepted"] * accepted + ["unverified"] * (n - accepted)
    if accepted < n and not ended:
        statuses[accepted] = "rejected"
    return tuple(
        DraftToken(
            token_id,
            round_significant(p[i]),
            None if q is None else round_significant(q[i]),
            None if u is None else round_significant(u[i]),
            statuses[i],
        )
        for i, token_id in enumerate(this.guess.tokens.tolist())
    )
