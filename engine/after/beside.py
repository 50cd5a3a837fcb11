"""Two models on one text: what another one makes of every token that a run wrote.

The text is forced through both in one pass each, so that both stand before the same words at every
token. How far apart they are there is the Kullback-Leibler divergence of the other's distribution from
the run's (Kullback & Leibler 1951), in nats, over the whole vocabulary and before any processor. What
each writes by itself is a greedy run of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch

from engine.after.likelihood import same_vocabulary
from engine.declare.weights import WeightsParams, read_weights
from engine.errors import Cancelled, ModelError
from engine.loops.recorder import rounded
from engine.loops.teacher_forced import teacher_forced
from engine.models.devices import default_device
from engine.models.fitting import check_fits
from engine.models.loading import LoadedModel, pinned
from engine.models.weights import asked_for
from engine.reading.divergence import shared
from engine.reading.held import held_as
from engine.reading.metrics import perplexity_of
from engine.run.decoding import decode
from engine.run.media_request import given_again, inputs_of
from engine.run.permits import Tell, nobody, running
from engine.run.request import DecodeRequest
from engine.run.weights import held_alone
from engine.trace.events import Failed, Finished
from engine.trace.records import ModelInfo, Trace

_ROWS = 32
"""Distributions compared at a time: they are held twice, in double precision."""


@dataclass(frozen=True)
class Side:
    """What one of the two models made of the text."""

    model: ModelInfo
    bytes: int
    """Of its parameters in memory."""
    logprobs: tuple[float, ...]
    """Natural logarithm of each token's probability."""
    ranks: tuple[int, ...]
    """Of each token among all, from 1; what is exactly as probable stands on one rank."""
    tops: tuple[int, ...]
    """The id that it finds most probable at each place."""
    greedy: tuple[int, ...]
    """What it writes by itself from the same prompt."""
    tokens_per_s: float | None
    """Of that greedy run, the recording included; None where it wrote nothing."""

    @property
    def perplexity(self) -> float | None:
        """exp(-mean log-probability) of the text, None for an empty one."""
        return perplexity_of(self.logprobs) if self.logprobs else None


@dataclass(frozen=True)
class Beside:
    """A run's own model and another one beside it, token by token.

    Attributes:
        token_ids: the text that both read.
        kl: nats, how far the other's distribution is from the run's own, never below 0.
        own: the model of the run.
        other: the one beside it.
        vocabulary: how many tokens both distributions were taken over.
        parted: how many tokens both greedy texts begin with alike, None where they never part.
        pieces: id -> text of all ids named here.
    """

    token_ids: tuple[int, ...]
    kl: tuple[float, ...]
    own: Side
    other: Side
    vocabulary: int
    parted: int | None
    pieces: dict[int, str]

    @property
    def mean_kl(self) -> float | None:
        """Nats per token, None for an empty text."""
        return rounded(sum(self.kl) / len(self.kl)) if self.kl else None

    @property
    def agreement(self) -> float | None:
        """Share of the places where both find the same token most probable, None for an empty text."""
        same = [a == b for a, b in zip(self.own.tops, self.other.tops, strict=True)]
        return rounded(sum(same) / len(same)) if same else None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "token_ids": list(self.token_ids),
            "kl": list(self.kl),
            "mean_kl": self.mean_kl,
            "largest_kl": max(self.kl, default=None),
            "agreement": self.agreement,
            "vocabulary": self.vocabulary,
            "parted": self.parted,
            "own": _side_dict(self.own),
            "other": _side_dict(self.other),
            "pieces": {str(i): text for i, text in self.pieces.items()},
        }


def beside(
    trace: Trace,
    own: LoadedModel,
    other: LoadedModel,
    cancelled: threading.Event | None = None,
    tell: Tell = nobody,
) -> Beside:
    """Read the first text of a run with its own model and with another one.

    Args:
        trace: a run that wrote something.
        own: the model that wrote it, as it was held then.
        other: any model with the same tokenizer: the same one held otherwise, its instruct form, an
            adapted one, a draft.
        cancelled: ends it when set.
        tell: gets Waiting events.

    Raises:
        Cancelled: it was cancelled.
        EngineError: the tokenizers differ, or the text does not fit one of the models.
    """
    cancelled = cancelled or threading.Event()
    new = list(trace.outputs[0].token_ids) if trace.outputs else []
    if not new:
        raise ModelError("The run wrote nothing that another model could read.")
    if not same_vocabulary(own, other):
        raise ModelError(
            f"{other.name} has another tokenizer than {own.name}: their tokens cannot be compared."
        )
    prompt = list(trace.prompt_ids)
    for loaded in (own, other):
        check_fits(loaded, (*prompt, *new), len(prompt) + len(new))
    size = 2.0 * (len(prompt) + len(new))
    line = running(cancelled, own, other, tell=tell, kind=("beside", own.name), size=size)
    with pinned(own, other), line, torch.inference_mode():
        compared = _compared(trace, (own, other), new, cancelled)
    with pinned(own, other):
        written = [_greedy(trace, loaded, len(new), cancelled) for loaded in (own, other)]
    return _put_together(new, (own, other), compared, written)


Held = tuple[str, WeightsParams]
"""A model's name and how its weights are held."""


def asked_beside(trace: Trace, model: str | None, weights: Mapping[str, Any]) -> tuple[Held, Held]:
    """Return what is loaded for a run and for the model beside it.

    Args:
        trace: the run.
        model: the other one's name, None for that of the run.
        weights: how the other one is held, see ``DecodeRequest``.

    Raises:
        ParameterError: a way to hold it that is not there, or not offered here.
    """
    device = default_device()
    own, _ = read_weights(asked_for(trace, device, assistant=False), "beside", assistant=False)
    return (trace.model.id, own), (model or trace.model.id, held_alone(weights, "beside"))


@dataclass
class _Compared:
    """What the two passes told, token by token; of both models in the order they were given."""

    kl: list[float]
    logprobs: tuple[list[float], list[float]]
    ranks: tuple[list[int], list[int]]
    tops: tuple[list[int], list[int]]
    vocabulary: int


def _compared(
    trace: Trace,
    models: tuple[LoadedModel, LoadedModel],
    new: list[int],
    cancelled: threading.Event,
) -> _Compared:
    logits = []
    for loaded in models:
        if cancelled.is_set():
            raise Cancelled
        given = inputs_of(trace, loaded)
        read = teacher_forced(loaded, trace.prompt_ids, new, media_inputs=given)
        logits.append(read.logits.cpu())
    # A model's table may have more rows than its tokenizer has entries; only what both have is compared.
    width = min(row.shape[-1] for row in logits)
    found = _Compared([], ([], []), ([], []), ([], []), width)
    for start in range(0, len(new), _ROWS):
        if cancelled.is_set():
            raise Cancelled
        wanted = torch.tensor(new[start : start + _ROWS])[:, None]
        parts = [
            torch.log_softmax(rows[start : start + _ROWS, :width].to(torch.float64), dim=-1)
            for rows in logits
        ]
        found.kl += [rounded(max(0.0, value)) for value in _divergence(*parts)]
        for place, part in enumerate(parts):
            of_token = part.gather(-1, wanted)
            found.logprobs[place].extend(rounded(v) for v in of_token[:, 0].tolist())
            found.ranks[place].extend((1 + (part > of_token).sum(-1)).tolist())
            found.tops[place].extend(part.argmax(-1).tolist())
    return found


def _divergence(own: torch.Tensor, other: torch.Tensor) -> list[float]:
    """Return KL(own || other) of every row of two tensors of log-probabilities (rows, vocabulary)."""
    p = own.exp()
    # Where the own probability is nought the other's does not count, whatever it is.
    return torch.where(p > 0, p * (own - other), torch.zeros_like(p)).sum(-1).tolist()


def _greedy(trace: Trace, loaded: LoadedModel, count: int, cancelled: threading.Event) -> Trace:
    """Return a greedy run of so many tokens; it waits for its turn like any other."""
    request = DecodeRequest(
        "greedy",
        loaded,
        input_ids=list(trace.prompt_ids),
        params={"max_new_tokens": count},
        top_candidates=1,
        **given_again(trace),
    )
    last = None
    with closing(decode(request)) as run:
        for event in run:
            last = event
            if cancelled.is_set():
                raise Cancelled
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return last.trace


def _put_together(
    new: Sequence[int],
    models: tuple[LoadedModel, LoadedModel],
    found: _Compared,
    written: list[Trace],
) -> Beside:
    texts = [list(run.outputs[0].token_ids) for run in written]
    common, parts = shared(texts, [True, True])
    sides = [
        Side(
            loaded.info(),
            loaded.memory_bytes(),
            tuple(found.logprobs[place]),
            tuple(found.ranks[place]),
            tuple(found.tops[place]),
            tuple(texts[place]),
            written[place].metrics.get("tokens_per_s"),
        )
        for place, loaded in enumerate(models)
    ]
    named = {*new, *(i for side in sides for i in (*side.tops, *side.greedy))}
    return Beside(
        tuple(new),
        tuple(found.kl),
        sides[0],
        sides[1],
        found.vocabulary,
        common if parts else None,
        models[0].pieces.of(sorted(named)),
    )


def _side_dict(side: Side) -> dict[str, Any]:
    return {
        "model": side.model.id,
        "held": held_as(side.model),
        "bytes": side.bytes,
        "perplexity": side.perplexity,
        "logprobs": list(side.logprobs),
        "probabilities": [rounded(math.exp(value)) for value in side.logprobs],
        "ranks": list(side.ranks),
        "tops": list(side.tops),
        "greedy": list(side.greedy),
        "tokens_per_s": side.tokens_per_s,
    }
