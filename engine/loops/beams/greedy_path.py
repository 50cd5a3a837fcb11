"""The greedy path of a prompt, for comparison with a beam search."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import torch

from engine.errors import DecodeError
from engine.loops.beams.step_record import IMPOSSIBLE_SUM, StepWriter
from engine.loops.forward import Forward, with_empty_cache
from engine.loops.optional_measurements import MeasurementStopped
from engine.loops.prefix_constraint import fit_processors
from engine.loops.recorder import round_decimals, run_processors
from engine.loops.rows import check_stopping, is_text_criterion
from engine.messages import Message
from engine.models.model_types import Model, Processors, StoppingCriteriaList
from engine.trace.details import BeamDetail, GreedyPath
from engine.trace.records import Step


class GreedyTracker:
    """Tracks the greedy path inside a search at no cost while it is one of the beams."""

    def __init__(self) -> None:
        self.beam: int | None = 0
        """The running beam that is the greedy path, None after the path left the beams."""
        self.ids: list[int] = []
        self.logprobs: list[float] = []

    def track_step(
        self, scores: torch.Tensor, flat: torch.Tensor, running: torch.Tensor, hits: torch.Tensor
    ) -> None:
        """Record one step of the search.

        Args:
            scores: (beams, vocab) processed log-probabilities.
            flat: (n,) beam * vocab + token of the pool.
            running: (beams,) pool indices of the running beams.
            hits: (n,) candidates that ended.
        """
        if self.beam is None:
            return
        token = int(scores[self.beam].argmax())
        self.ids.append(token)
        self.logprobs.append(float(scores[self.beam, token]))
        # The path stays in the search while its token is one of the running beams.
        place = self.beam * scores.shape[-1] + token
        on = ((flat[running] == place) & ~hits[running]).nonzero()
        self.beam = int(on[0]) if len(on) else None


def measure_greedy_path(
    writer: StepWriter,
    last: Step,
    search: Forward,
    prompt: torch.Tensor,
    rules: tuple[Processors, StoppingCriteriaList],
    trail: GreedyTracker | None = None,
) -> Generator[Step, None, None]:
    """Yield the last step of a search again with the greedy path in its detail.

    The text is complete and sent before this runs. If the path fails, nothing is yielded.

    Args:
        writer: recorded the search, whose last text is the winner.
        last: the last step.
        search: see ``decode_greedy_path``, as all that follow.
        prompt: (1, length) ids.
        rules: the processors and the stopping criteria of the search.
        trail: the part of the path the search already computed.
    """
    additions, winner = writer.recorder.additions, tuple(writer.shown)
    path = additions.measure(
        "The greedy path next to the beams",
        lambda: decode_greedy_path(winner, additions.progress, search, prompt, rules, trail),
        None,
    )
    if path is not None:
        assert isinstance(last.detail, BeamDetail)
        yield replace(last, detail=replace(last.detail, greedy=path))


def decode_greedy_path(
    winner: tuple[int, ...],
    tell: Callable[[int, int, str], None],
    search: Forward,
    prompt: torch.Tensor,
    rules: tuple[Processors, StoppingCriteriaList],
    trail: GreedyTracker | None = None,
) -> GreedyPath | None:
    """Decode greedily with the same processors and sum the same log-probabilities.

    Args:
        winner: new tokens of the best hypothesis.
        tell: progress callback: tokens done, most tokens, unit.
        search: the forward passes of the search.
        prompt: (1, length) ids.
        rules: the processors and the stopping criteria of the search.
        trail: the part of the path the search already computed.

    Returns:
        None if the search was cancelled or ran out of time, since the path would be cut short.

    Raises:
        DecodeError: the processors removed every token.
        MeasurementStopped: the run was stopped after its search.
    """
    logits_processor, stopping_criteria = rules
    model, config = search.model, search.generation_config
    interrupts = [c for c in stopping_criteria if not is_text_criterion(c)]

    def interrupted() -> bool:
        return any(bool(criterion(prompt, None).all()) for criterion in interrupts)

    if interrupted():
        return None
    # A row more in the search itself would change the beams: other batch sizes round otherwise.
    start, logprobs = (trail.ids, list(trail.logprobs)) if trail else ([], [])
    ids, start_length = torch.cat([prompt, prompt.new_tensor([start])], dim=-1), prompt.shape[1]
    forward = Forward(model, config, _single_row_kwargs(model, search.first_kwargs, len(start)))
    processors = fit_processors(logits_processor, 1)
    most, one_beam = config.max_length - start_length, config.num_beams == 1
    while not (logprobs and bool(check_stopping(stopping_criteria, ids).all())):
        tell(len(logprobs), most, "tokens of the greedy path")
        token, logprob = _most_likely_token(forward, ids, processors, one_beam)
        logprobs.append(logprob)
        ids = torch.cat([ids, token[:, None]], dim=-1)
    if interrupted():
        done = Message("the run was stopped after {n} of its tokens.", n=len(logprobs))
        raise MeasurementStopped(done)
    written: list[int] = ids[0, start_length:].tolist()
    total, length, new = sum(logprobs), len(written), tuple(written)
    if total <= IMPOSSIBLE_SUM:
        raise DecodeError("Every token that could follow was removed.")
    score = total / length**config.length_penalty
    return GreedyPath(
        new, round_decimals(total), round_decimals(score), divergence_index(new, winner)
    )


def _most_likely_token(
    forward: Forward, ids: torch.Tensor, processors: Processors, one_beam: bool
) -> tuple[torch.Tensor, float]:
    """Return the (1,) most likely next token of (1, length) ids and its log-probability."""
    logits = forward.last_logits(forward(ids), ids.device)
    total = logits.logsumexp(-1, keepdim=True)
    scores = logits if one_beam else torch.log_softmax(logits, dim=-1)
    scores, _ = run_processors(processors, ids, scores)
    scores = scores - total if one_beam else scores
    token = scores.argmax(-1)
    return token, float(scores[0, token])


def divergence_index(greedy: tuple[int, ...], winner: tuple[int, ...]) -> int | None:
    """Return the first position where the winner differs from the greedy path, or None."""
    for position, (a, b) in enumerate(zip(greedy, winner, strict=False)):
        if a != b:
            return position
    return None if len(greedy) == len(winner) else min(len(greedy), len(winner))


def _single_row_kwargs(model: Model, model_kwargs: dict[str, Any], longer: int) -> dict[str, Any]:
    """Return the arguments for one row with an empty cache and ``longer`` more tokens."""
    kwargs = with_empty_cache(model, model_kwargs)
    single = {k: v[:1] if torch.is_tensor(v) and v.ndim else v for k, v in kwargs.items()}
    if model.config.is_encoder_decoder:
        encoded = model_kwargs["encoder_outputs"]
        single["encoder_outputs"] = type(encoded)(last_hidden_state=encoded.last_hidden_state[:1])
        return single
    if "mm_encoder_outputs" in kwargs:
        single["mm_encoder_outputs"] = _single_row_media(kwargs)
    mask, positions = single.get("attention_mask"), single.get("position_ids")
    if mask is not None:
        single["attention_mask"] = torch.cat([mask, mask.new_ones((1, longer))], dim=-1)
    if positions is not None:
        further = positions[..., -1:] + torch.arange(1, longer + 1, device=positions.device)
        single["position_ids"] = torch.cat([positions, further], dim=-1)
    return single


def _single_row_media(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the image encoder outputs of the first row; generate() concatenates all rows."""
    rows = kwargs["position_ids"].shape[-2]
    found = {}
    for name, outputs in kwargs["mm_encoder_outputs"].items():
        found[name] = copy.copy(outputs)
        whole = outputs.pooler_output
        found[name].pooler_output = whole[: len(whole) // rows]
    return found
