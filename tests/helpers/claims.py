"""What an answer claims, tried: the run is made again with the change that it names."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from engine.inspection.drafting import redraw_round_numbers
from engine.inspection.explanation import CHOSEN, CONSIDERED, KEPT, SURVIVES, Explanation
from engine.inspection.filter_chain import FilterChain
from engine.inspection.rerun import ReplayedStep, replay_to_step
from engine.loops import dola
from engine.processors.scores import IMPOSSIBLE_SCORE
from engine.run.request import request_from_trace
from engine.trace.details import BeamDetail, ContrastiveDetail, DraftDetail
from engine.trace.records import Step, Trace, replay_ids
from tests.helpers.runs import finished

OF_THE_PROMPT = (
    "min_new_tokens",
    "begin_suppress_tokens",
    "encoder_no_repeat_ngram_size",
    "prefix_allowed_tokens_fn",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
"""What depends on where the prompt ends, so that a fork would not be the same."""


def before(trace: Trace, step: Step, at: int | None = None) -> list[int]:
    """Return the new tokens before what a step wrote at a place, its last one where none is named."""
    same = tuple(s for s in trace.steps[: step.index] if s.sequence == step.sequence)
    where = len(step.emit) - 1 if at is None else at
    return [*replay_ids(same)[: step.keep], *step.emit[:where]]


def holds(place: ReplayedStep, answer: Explanation, at: int | None = None) -> bool:
    """Return whether what an answer claims comes true in a run with its change."""
    assert answer.claim is not None
    changes, then = dict(answer.claim.changes), answer.claim.then
    if then == KEPT:
        return _is_kept(place, answer, changes)
    if "u" in changes or "noise" in changes:
        with _luck(place, changes):
            return _is_written(place, answer, _again(place, {}), at)
    with _share(changes):
        if not answer.claim.at_step:
            assert then == CHOSEN
            return _is_written(place, answer, _again(place, changes), at)
        if any(name in OF_THE_PROMPT for name in changes):
            made, index = _again(place, changes), place.step.index
            assert before(made, made.steps[index], at) == before(place.trace, place.step, at), (
                "this change makes another text before the step"
            )
        else:
            made, index = _forked(place, changes, at), 0
        return _at_step(place, made, index, answer, then)


def _models(place: ReplayedStep) -> tuple[Any, Any]:
    assert place.run is not None
    return place.run.target, place.run.assistant


def _again(place: ReplayedStep, changes: dict[str, Any]) -> Trace:
    """Make the whole run again, with another parameter."""
    request = request_from_trace(place.trace, *_models(place))
    params = {k: v for k, v in {**request.params, **changes}.items() if v is not None}
    return finished(dataclasses.replace(request, params=params))


def _forked(place: ReplayedStep, changes: dict[str, Any], at: int | None) -> Trace:
    """Make the step alone, after the same text, with another parameter."""
    request = request_from_trace(place.trace, *_models(place))
    ids = [*place.trace.prompt_ids, *before(place.trace, place.step, at)]
    params = {**request.params, "max_new_tokens": 1, "num_return_sequences": 1, **changes}
    params = {k: v for k, v in params.items() if v is not None}
    return finished(dataclasses.replace(request, input_ids=ids, params=params))


def _at_step(place: ReplayedStep, made: Trace, index: int, answer: Explanation, then: str) -> bool:
    step = made.steps[index]
    if then == CHOSEN:
        return step.emit[-1] == answer.token_id
    if then == CONSIDERED:
        assert isinstance(step.detail, ContrastiveDetail)
        return answer.token_id in [option.token_id for option in step.detail.options]
    assert then == SURVIVES
    seen = replay_to_step(made, index, *_models(place))
    chain = FilterChain(seen.views[0], seen.row if index else 0)
    return float(chain.scores[chain.row, answer.token_id]) > IMPOSSIBLE_SCORE


def _is_written(place: ReplayedStep, answer: Explanation, made: Trace, at: int | None) -> bool:
    """Return whether a run writes the same text up to the place, and there the token."""
    text = before(place.trace, place.step, at)
    found = replay_ids(made.steps_of(place.step.sequence))
    return found[: len(text) + 1] == [*text, answer.token_id]


def _is_kept(place: ReplayedStep, answer: Explanation, changes: dict[str, Any]) -> bool:
    """Return whether a search keeps the very text that its bias is for."""
    made = _again(place, changes)
    ids, _ = changes["sequence_bias"][-1]
    step = made.steps[place.step.index]
    assert isinstance(step.detail, BeamDetail)
    start = [0] if made.model.is_encoder_decoder else [*made.prompt_ids]
    kept = [node.node_id for node in step.detail.pool if node.fate in ("kept", "finished")]
    assert ids[-1] == answer.token_id
    return any([*start, *_path(made, node)][-len(ids) :] == ids for node in kept)


def _path(trace: Trace, node: int) -> list[int]:
    nodes = {
        n.node_id: n
        for step in trace.steps
        if isinstance(step.detail, BeamDetail)
        for n in step.detail.pool
    }
    path = []
    while node != -1:
        path.append(nodes[node].token_id)
        node = nodes[node].parent_id
    return path[::-1]


@contextlib.contextmanager
def _share(changes: dict[str, Any]) -> Iterator[None]:
    """Let DoLa contrast less probable tokens, where that is the change."""
    value = changes.pop("relative_top", None)
    with pytest.MonkeyPatch.context() as patch:
        if value is not None:
            patch.setattr(dola, "RELATIVE_TOP", value)
        yield


@contextlib.contextmanager
def _luck(place: ReplayedStep, changes: dict[str, Any]) -> Iterator[None]:
    """Change one random number of a round: it is known by the others that are drawn with it."""
    assert isinstance(place.step.detail, DraftDetail)
    numbers, rand, exponential = redraw_round_numbers(place), torch.rand, torch.Tensor.exponential_

    def other_u(*args: Any, **kwargs: Any) -> torch.Tensor:
        u = rand(*args, **kwargs)
        if u.shape == numbers.u.shape and torch.equal(u, numbers.u):
            for where, value in changes.get("u", {}).items():
                u[where] = value
        return u

    def other_noise(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        noise = exponential(self, *args, **kwargs)
        if noise.shape == numbers.noise.shape and torch.equal(noise, numbers.noise):
            for token, value in changes.get("noise", {}).items():
                noise[token] = value
        return noise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", other_u)
        patch.setattr(torch.Tensor, "exponential_", other_noise)
        yield
