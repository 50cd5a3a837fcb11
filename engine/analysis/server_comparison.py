"""Compare what a model server reported with a model here that should have the same weights.

The model reads the server's text in one teacher-forced pass, so both score every token after the same
tokens. The log-probabilities are compared of those candidates that the server listed. The
Kullback-Leibler divergence KL(server || here) covers the whole vocabulary, of which the server listed a
part, so it is known between two bounds.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import EngineError, ModelError
from engine.loops.recorder import round_decimals, round_significant
from engine.loops.teacher_forced import run_teacher_forced
from engine.models.context_check import check_fits_context
from engine.models.loading import LoadedModel, pin_models
from engine.models.text import tokenize_text
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.statistics.unseen_mass import divergence_bounds, unseen_mass
from engine.trace.records import Step, Trace
from engine.trace.served import ServedDetail, is_invented_id

_LEAST_LOGPROB = -20.0
"""Smaller ones count as this, because rounding alone may change them by nats."""


@dataclass(frozen=True)
class ComparedToken:
    """One token of a server's text.

    Attributes:
        token_id: the token.
        server: its log-probability in nats by the server; None if the server did not list it.
        here: the same by the model here.
        server_top: most probable token id that the server listed.
        here_top: most probable token id of the model here.
        differences: absolute differences in nats of the listed candidates' log-probabilities.
        kl: least and most KL(server || here) in nats that agree with what the server listed.
    """

    token_id: int
    server: float | None
    here: float
    server_top: int
    here_top: int
    differences: tuple[float, ...]
    kl: tuple[float, float]

    @property
    def server_p(self) -> float | None:
        """Its probability by the server, at least exp(-20); None if the server did not list it."""
        return None if self.server is None else round_significant(math.exp(self.server))

    @property
    def here_p(self) -> float:
        """Its probability by the model here."""
        return round_significant(math.exp(self.here))

    def to_dict(self) -> dict[str, Any]:
        """Return the token as JSON values."""
        return {
            "token_id": self.token_id,
            "server": self.server,
            "here": self.here,
            "server_p": self.server_p,
            "here_p": self.here_p,
            "server_top": self.server_top,
            "here_top": self.here_top,
            "compared": len(self.differences),
            "largest_difference": max(self.differences, default=None),
            "kl": list(self.kl),
        }


@dataclass(frozen=True)
class ServerComparison:
    """A server's text, scored by the server and by a model here.

    Attributes:
        model: name of the model here.
        tokens: the tokens of the text.
        same_prompt: whether the model here splits the prompt into the tokens that the server read;
            None if the run has no prompt as text, or the model no tokenizer.
        pieces: id -> text of every id in this object.
    """

    model: str
    tokens: tuple[ComparedToken, ...]
    same_prompt: bool | None
    pieces: dict[int, str]

    @property
    def same_tops(self) -> int:
        """Number of tokens at which both have the same most probable token."""
        return sum(token.server_top == token.here_top for token in self.tokens)

    @property
    def mean_difference(self) -> float | None:
        """Mean absolute difference in nats of all compared log-probabilities."""
        found = self._differences()
        return round_decimals(sum(found) / len(found)) if found else None

    @property
    def largest_difference(self) -> float | None:
        """Largest absolute difference in nats of all compared log-probabilities."""
        return max(self._differences(), default=None)

    @property
    def mean_kl(self) -> tuple[float, float]:
        """Least and most mean divergence in nats per token."""
        low, high = zip(*(token.kl for token in self.tokens), strict=True)
        return round_decimals(sum(low) / len(low)), round_decimals(sum(high) / len(high))

    @property
    def first_difference(self) -> int | None:
        """Index of the first token at which their most probable tokens differ; None if there is none."""
        return next(
            (at for at, one in enumerate(self.tokens) if one.server_top != one.here_top), None
        )

    @property
    def compared(self) -> int:
        """Number of compared log-probabilities."""
        return len(self._differences())

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "model": self.model,
            "same_prompt": self.same_prompt,
            "same_tops": self.same_tops,
            "compared": self.compared,
            "mean_kl": list(self.mean_kl),
            "first_difference": self.first_difference,
            "mean_difference": self.mean_difference,
            "largest_difference": self.largest_difference,
            "tokens": [token.to_dict() for token in self.tokens],
            "pieces": {str(i): text for i, text in self.pieces.items()},
        }

    def _differences(self) -> list[float]:
        return [value for token in self.tokens for value in token.differences]


def compare_with_server(
    trace: Trace,
    here: LoadedModel,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> ServerComparison:
    """Score the first text of a server's run with a model here.

    Args:
        trace: a run of a prompt that a server decoded, with token ids.
        here: the model, which should have the server's weights.
        cancelled: stops waiting for the model when set.
        tell: receives Waiting events.

    Raises:
        Cancelled: `cancelled` was set while waiting.
        EngineError: the run lacks what is compared, or the text does not fit the model.
    """
    steps = trace.steps_of(0)
    _check_run(trace, steps)
    prompt, new = list(trace.prompt_ids), [step.emit[0] for step in steps]
    listed = {c.token_id for step in steps for c in step.candidates}
    if max((*prompt, *new, *listed)) >= here.vocab_size:
        raise ModelError(
            "The server's token ids go to {most}, but {name} has only {n} tokens: it is another model.",
            most=max((*prompt, *new, *listed)),
            name=here.name,
            n=here.vocab_size,
        )
    check_fits_context(here, (*prompt, *new), len(prompt) + len(new))
    size = float(len(prompt) + len(new))
    line = wait_for_turn(
        cancelled or threading.Event(), here, tell=tell, kind=("beside", here.name), size=size
    )
    with pin_models(here), line, torch.inference_mode():
        logits = run_teacher_forced(here, prompt, new).logits.cpu()
    _check_possible(here, steps, logits)
    tokens = tuple(_compare_step(step, row) for step, row in zip(steps, logits, strict=True))
    named = {i for token in tokens for i in (token.token_id, token.server_top, token.here_top)}
    return ServerComparison(
        here.name, tokens, _has_same_prompt(trace, here), here.pieces.of(sorted(named))
    )


def _check_run(trace: Trace, steps: Sequence[Step]) -> None:
    if trace.served is None:
        raise EngineError("This run was decoded here. Compare it with another model instead.")
    ids = [*trace.prompt_ids]
    for step in steps:
        detail = step.detail
        assert isinstance(detail, ServedDetail)
        if detail.distribution == "sampled":
            raise EngineError(
                "The server reported probabilities after its filters, and only the model's own can be "
                "compared."
            )
        if detail.merged:
            raise EngineError(
                "The server joined tokens of one character, so the tokens of its text are not known."
            )
        ids += [*step.emit, *(c.token_id for c in step.candidates)]
    listed = bool(steps) and all(step.candidates for step in steps)
    if not trace.prompt_ids or not listed or any(map(is_invented_id, ids)):
        raise EngineError(
            "This run lacks the token ids of its prompt, of its text or of its candidates, so it "
            "cannot be compared."
        )


def _check_possible(here: LoadedModel, steps: Sequence[Step], logits: torch.Tensor) -> None:
    for step, row in zip(steps, logits, strict=True):
        likely = [c.token_id for c in step.candidates if math.exp(c.raw_logprob) > 0]
        if not row[[step.emit[0], *likely]].isfinite().all():
            raise ModelError(
                "The server finds a token possible that {name} never writes: it is another model.",
                name=here.name,
            )


def _compare_step(step: Step, logits: torch.Tensor) -> ComparedToken:
    own = torch.log_softmax(logits.to(torch.float64), dim=-1)
    server = {c.token_id: c.raw_logprob for c in step.candidates}
    ids = list(server)
    values: list[float] = own[torch.tensor(ids)].tolist()
    pairs = zip(server.values(), values, strict=True)
    token_id = step.emit[0]
    reported = server.get(token_id)
    return ComparedToken(
        token_id,
        None if reported is None else round_decimals(max(reported, _LEAST_LOGPROB)),
        round_decimals(float(own[token_id])),
        max(ids, key=lambda i: server[i]),
        int(own.argmax()),
        tuple(
            round_decimals(abs(max(a, _LEAST_LOGPROB) - max(b, _LEAST_LOGPROB))) for a, b in pairs
        ),
        _bound_divergence(step, own, ids),
    )


def _bound_divergence(step: Step, own: torch.Tensor, ids: Sequence[int]) -> tuple[float, float]:
    """Return the bounds of KL(server || here) in nats.

    Args:
        step: a step of the server's run.
        own: (vocab,) log-probabilities by the model here.
        ids: the tokens that the server listed.
    """
    seen = [math.exp(c.raw_logprob) for c in step.candidates]
    # A chosen token of low probability may be listed after the most probable ones.
    best = seen[:-1] if ids[-1] == step.emit[0] else seen
    cap = best[-1] if best else 1.0
    is_unseen = torch.ones(len(own), dtype=torch.bool)
    is_unseen[list(ids)] = False
    # A token that is impossible here, such as padding of the vocabulary, is none to the server either.
    unseen = own[is_unseen & own.isfinite()]
    mass = unseen_mass(seen)[1]
    # A list that leaves more open than fits below its last token is not of the most probable ones.
    if cap * len(unseen) <= mass:
        cap = 1.0
    filled = min(len(unseen), math.ceil(mass / cap) + 1)
    least: list[float] = unseen.topk(filled, largest=False).values.tolist()
    here: list[float] = own[list(ids)].tolist()
    low, high = divergence_bounds(seen, here, float(unseen.exp().sum()), least, cap)
    return round_decimals(low), round_decimals(high)


def _has_same_prompt(trace: Trace, here: LoadedModel) -> bool | None:
    if trace.prompt is None or trace.parent is not None or here.tokenizer is None:
        return None
    return list(tokenize_text(here.tokenizer, trace.prompt)["input_ids"]) == list(trace.prompt_ids)
