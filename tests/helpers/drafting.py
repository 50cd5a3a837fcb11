"""Runs whose rounds are compared with transformers' own assisted decoding."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy
import torch
from transformers.generation import candidate_generator

from engine.run.request import DecodeRequest
from engine.trace.details import DraftDetail
from engine.trace.records import Trace
from tests.helpers.models import fresh_model, golden_model
from tests.helpers.runs import finished

PROMPT = [5, 17, 33, 8, 61, 5, 17, 40, 12, 5, 17, 33]


def finish(strategy: str, params: dict[str, Any], **more: Any) -> Trace:
    """Run a request to its end and return the trace."""
    more = {"model": golden_model("llama"), "input_ids": PROMPT} | more
    return finished(DecodeRequest(strategy, params=params, **more))


def rounds(trace: Trace) -> list[tuple[int, int]]:
    """Return (drafted, emitted) of every round."""
    assert all(isinstance(step.detail, DraftDetail) for step in trace.steps)
    return [(step.detail.draft_length, len(step.emit)) for step in trace.steps]


class Rounds:
    """A streamer that sees what transformers commits round by round."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        self.sizes.append(value.numel())

    def end(self) -> None:
        """Nothing to flush."""


def native_rounds(
    seed: int,
    drafts: dict[str, Any],
    draft: Any = None,
    name: str = "llama",
    prompt: list[int] | None = None,
    target: Any = None,
    **kwargs: Any,
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return transformers' new tokens and (drafted, emitted) of every round.

    Draft settings are put where 5.23 reads them: on the draft's own generation configuration.
    """
    target = fresh_model(name) if target is None else target
    owner = draft if draft is not None else target
    for key, value in drafts.items():
        setattr(owner.generation_config, key, value)
    streamer, lengths = Rounds(), []
    layers = target.config.num_hidden_layers

    def watch(module: Any, args: Any, kw: dict[str, Any]) -> None:
        if module.config.num_hidden_layers == layers:  # not the shortened model of an early exit
            lengths.append(int(kw["logits_to_keep"]) - 1)

    hook = target.register_forward_pre_hook(watch, with_kwargs=True)
    ids = torch.tensor([prompt or PROMPT])
    torch.manual_seed(seed)
    extra = {} if draft is None else {"assistant_model": draft}
    out = target.generate(
        ids, attention_mask=torch.ones_like(ids), streamer=streamer, **extra, **kwargs
    )
    hook.remove()
    new = out[0, ids.shape[1] :].tolist()
    return new, list(zip(lengths, streamer.sizes[1:], strict=True))


def drafter(like: str = "llama_draft", noise: float = 0.0) -> Any:
    """Return a draft: a fixed tiny model, or the target with noise on its weights."""
    model = fresh_model(like)
    if noise:
        torch.manual_seed(5)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(noise * torch.randn_like(p))
    return model


def install_scikit_learn(monkeypatch: Any) -> None:
    """Let transformers' assisted decoding find scikit-learn until the test ends."""
    monkeypatch.setattr(candidate_generator, "is_sklearn_available", lambda: True)
    for name in ("sklearn", "sklearn.metrics"):
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(roc_curve=roc_curve))


def roc_curve(truth: Any, scores: Any) -> tuple[Any, Any, list[float]]:
    """Return what scikit-learn's function of this name does, without dropping any point."""
    truth, scores = numpy.array(truth), numpy.array(scores)
    thresholds = numpy.unique(scores)[::-1]
    above = scores[None] >= thresholds[:, None]
    false, true = ((above & (truth == kind)).sum(1) / (truth == kind).sum() for kind in (0, 1))
    return numpy.array([0, *false]), numpy.array([0, *true]), [numpy.inf, *thresholds]
