"""Compare the model of a run with another model, token by token, on the text of the run.

Each model reads the text in one teacher-forced pass, so both predict every token from the same
context. Their distance at a token is the Kullback-Leibler divergence KL(run's model || other model)
(Kullback & Leibler 1951), in nats, over the whole vocabulary and before any logits processor.
Each model also writes its own continuation of the prompt in a separate greedy run.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch

from engine.analysis.likelihood import has_same_vocabulary
from engine.declare.weights import WeightsParams, parse_weights
from engine.errors import Cancelled, ModelError
from engine.loops.recorder import round_decimals
from engine.loops.teacher_forced import run_teacher_forced
from engine.models.context_check import check_fits_context
from engine.models.devices import default_device
from engine.models.loading import LoadedModel, pin_models
from engine.models.weights import to_weights_request
from engine.run.decoding import decode, trace_of
from engine.run.media_request import load_media_fields, load_media_inputs
from engine.run.request import DecodeRequest
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.run.weights import read_single_weights
from engine.statistics.metrics import perplexity_from_logprobs
from engine.statistics.text_divergence import common_prefix_length
from engine.statistics.weights_summary import describe_weights
from engine.trace.records import ModelInfo, Trace
from engine.trace.served_checks import require_local_run

_ROWS_PER_CHUNK = 32
"""Rows compared at a time; each needs two distributions in double precision."""


@dataclass(frozen=True)
class ModelScores:
    """The scores that one of the two models gives the text."""

    model: ModelInfo
    bytes: int
    """Size of the parameters in memory."""
    logprobs: tuple[float, ...]
    """Natural logarithm of each token's probability."""
    ranks: tuple[int, ...]
    """Rank of each token in the vocabulary, from 1; equally probable tokens share a rank."""
    tops: tuple[int, ...]
    """Most probable token id at each position."""
    greedy: tuple[int, ...]
    """Token ids of its greedy continuation of the same prompt."""
    tokens_per_s: float | None
    """Speed of that greedy run, recording included; None if it wrote nothing."""

    @property
    def perplexity(self) -> float | None:
        """exp(-mean log-probability) of the text; None if the text is empty."""
        return perplexity_from_logprobs(self.logprobs) if self.logprobs else None


@dataclass(frozen=True)
class ModelComparison:
    """The model of a run compared with another model, token by token.

    Attributes:
        token_ids: the text that both models read.
        kl: KL(own || other) at each token, in nats, at least 0.
        own: scores of the run's model.
        other: scores of the other model.
        vocabulary: number of tokens that both distributions cover.
        parted: length of the common prefix of both greedy texts; None if they do not diverge.
        pieces: id -> text of every id in this object.
    """

    token_ids: tuple[int, ...]
    kl: tuple[float, ...]
    own: ModelScores
    other: ModelScores
    vocabulary: int
    parted: int | None
    pieces: dict[int, str]

    @property
    def mean_kl(self) -> float | None:
        """Mean divergence in nats per token; None if the text is empty."""
        return round_decimals(sum(self.kl) / len(self.kl)) if self.kl else None

    @property
    def agreement(self) -> float | None:
        """Share of positions with the same top token in both models; None for an empty text."""
        same = [a == b for a, b in zip(self.own.tops, self.other.tops, strict=True)]
        return round_decimals(sum(same) / len(same)) if same else None

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "token_ids": list(self.token_ids),
            "kl": list(self.kl),
            "mean_kl": self.mean_kl,
            "largest_kl": max(self.kl, default=None),
            "agreement": self.agreement,
            "vocabulary": self.vocabulary,
            "parted": self.parted,
            "own": _scores_to_dict(self.own),
            "other": _scores_to_dict(self.other),
            "pieces": {str(i): text for i, text in self.pieces.items()},
        }


def compare_models(
    trace: Trace,
    own: LoadedModel,
    other: LoadedModel,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> ModelComparison:
    """Score the first output of a run with the run's model and with another model.

    Args:
        trace: a run that wrote at least one token.
        own: the model of the run, in the run's weight format.
        other: a model with the same tokenizer: the same model in another weight format, its
            instruct form, an adapted model, a draft model.
        cancelled: stops the comparison when set.
        tell: receives Waiting events.

    Raises:
        Cancelled: `cancelled` was set.
        EngineError: the tokenizers differ, or the text does not fit one of the models.
    """
    cancelled = cancelled or threading.Event()
    new = list(trace.outputs[0].token_ids) if trace.outputs else []
    if not new:
        raise ModelError("The run wrote nothing that another model could read.")
    if not has_same_vocabulary(own, other):
        raise ModelError(
            "{name} has another tokenizer than {own}: their tokens cannot be compared.",
            name=other.name,
            own=own.name,
        )
    prompt = list(trace.prompt_ids)
    for loaded in (own, other):
        check_fits_context(loaded, (*prompt, *new), len(prompt) + len(new))
    size = 2.0 * (len(prompt) + len(new))
    line = wait_for_turn(cancelled, own, other, tell=tell, kind=("beside", own.name), size=size)
    with pin_models(own, other), line, torch.inference_mode():
        compared = _score_both(trace, (own, other), new, cancelled)
    # After the turn has ended: each greedy run queues by itself.
    with pin_models(own, other):
        written = [_run_greedy(trace, loaded, len(new), cancelled) for loaded in (own, other)]
    return _build_comparison(new, (own, other), compared, written)


NameAndWeights = tuple[str, WeightsParams]
"""Name of a model and its weight format."""


def models_to_load(
    trace: Trace, model: str | None, weights: Mapping[str, object]
) -> tuple[NameAndWeights, NameAndWeights]:
    """Return names and weight formats of the run's model and of the model to compare.

    Args:
        trace: the run.
        model: name of the other model; None is the run's model.
        weights: weight format of the other model, see ``DecodeRequest``.

    Raises:
        ParameterError: the weight format does not exist, or this deployment does not offer it.
    """
    require_local_run(trace)
    device = default_device()
    own, _ = parse_weights(
        to_weights_request(trace, device, assistant=False), "beside", assistant=False
    )
    return (trace.model.id, own), (model or trace.model.id, read_single_weights(weights, "beside"))


@dataclass
class _PairScores:
    """Scores of every token from both passes; pairs are in the order (own, other)."""

    kl: list[float]
    logprobs: tuple[list[float], list[float]]
    ranks: tuple[list[int], list[int]]
    tops: tuple[list[int], list[int]]
    vocabulary: int


def _score_both(
    trace: Trace,
    models: tuple[LoadedModel, LoadedModel],
    new: list[int],
    cancelled: threading.Event,
) -> _PairScores:
    logits: list[torch.Tensor] = []
    for loaded in models:
        if cancelled.is_set():
            raise Cancelled
        given = load_media_inputs(trace, loaded)
        read = run_teacher_forced(loaded, trace.prompt_ids, new, media_inputs=given)
        logits.append(read.logits.cpu())
    # An embedding table may be padded beyond the tokenizer's entries: compare the common ids only.
    width = min(row.shape[-1] for row in logits)
    found = _PairScores([], ([], []), ([], []), ([], []), width)
    for start in range(0, len(new), _ROWS_PER_CHUNK):
        if cancelled.is_set():
            raise Cancelled
        wanted = torch.tensor(new[start : start + _ROWS_PER_CHUNK])[:, None]
        parts = [
            torch.log_softmax(
                rows[start : start + _ROWS_PER_CHUNK, :width].to(torch.float64), dim=-1
            )
            for rows in logits
        ]
        found.kl += [round_decimals(max(0.0, value)) for value in _kl_divergence(*parts)]
        for place, part in enumerate(parts):
            of_token = part.gather(-1, wanted)
            logprobs: list[float] = of_token[:, 0].tolist()
            ranks: list[int] = (1 + (part > of_token).sum(-1)).tolist()
            tops: list[int] = part.argmax(-1).tolist()
            found.logprobs[place].extend(map(round_decimals, logprobs))
            found.ranks[place].extend(ranks)
            found.tops[place].extend(tops)
    return found


def _kl_divergence(own: torch.Tensor, other: torch.Tensor) -> list[float]:
    """Return KL(own || other) in nats for each row of two (rows, vocabulary) log-probabilities."""
    p = own.exp()
    # 0 * log(0 / q) is 0 by definition, but NaN in floating point.
    rows: list[float] = torch.where(p > 0, p * (own - other), torch.zeros_like(p)).sum(-1).tolist()
    return rows


def _run_greedy(trace: Trace, loaded: LoadedModel, count: int, cancelled: threading.Event) -> Trace:
    """Return a greedy run of at most `count` tokens; it waits in the queue like any other run."""
    request = DecodeRequest(
        "greedy",
        loaded,
        input_ids=list(trace.prompt_ids),
        params={"max_new_tokens": count},
        top_candidates=1,
        **load_media_fields(trace),
    )
    last = None
    with closing(decode(request)) as run:
        for event in run:
            last = event
            if cancelled.is_set():
                raise Cancelled
    return trace_of(last)


def _build_comparison(
    new: Sequence[int],
    models: tuple[LoadedModel, LoadedModel],
    found: _PairScores,
    written: list[Trace],
) -> ModelComparison:
    texts = [list(run.outputs[0].token_ids) for run in written]
    common, parts = common_prefix_length(texts, [True, True])
    sides = [
        ModelScores(
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
    return ModelComparison(
        tuple(new),
        tuple(found.kl),
        sides[0],
        sides[1],
        found.vocabulary,
        common if parts else None,
        models[0].pieces.of(sorted(named)),
    )


def _scores_to_dict(side: ModelScores) -> dict[str, Any]:
    return {
        "model": side.model.id,
        "held": describe_weights(side.model),
        "bytes": side.bytes,
        "perplexity": side.perplexity,
        "logprobs": list(side.logprobs),
        "probabilities": [round_decimals(math.exp(value)) for value in side.logprobs],
        "ranks": list(side.ranks),
        "tops": list(side.tops),
        "greedy": list(side.greedy),
        "tokens_per_s": side.tokens_per_s,
    }
