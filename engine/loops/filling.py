"""Masked diffusion inside generate(): every pass is a step, and the text is compared with a plain one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.errors import DecodeError
from engine.loops.diffusion import DiffusionRule, Pass, fill_places
from engine.loops.exponential_race import draw_tokens
from engine.loops.forward import Forward
from engine.loops.optional_measurements import MeasurementStopped
from engine.loops.recorder import Recorder, round_decimals, round_significant
from engine.loops.rows import is_text_criterion
from engine.loops.special_ids import eos_ids
from engine.messages import Message
from engine.models.diffusion_model import DiffusionModel
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteriaList
from engine.statistics.metrics import perplexity_from_logprobs, repetition_metrics
from engine.trace.filling import FillDetail, FillReport, PlaceGuess, TextMeasure
from engine.trace.records import Step


@dataclass(frozen=True)
class Filling:
    """What is filled, and how.

    Attributes:
        filler: the model that fills hidden places.
        given: the new tokens; None at a hidden place.
        rule: in which order the places are filled.
    """

    filler: DiffusionModel
    given: tuple[int | None, ...]
    rule: DiffusionRule


def masked_diffusion_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    filling: Filling,
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Fill the hidden places after a prompt, pass by pass, then measure the text.

    Args:
        model: the main model, which judges the text and writes another one from left to right.
        input_ids: (1, length) prompt ids.
        logits_processor: must be empty: a filter reshapes the next token, and there is none here.
        stopping_criteria: a stop and a time limit end the run between two passes.
        generation_config: names the tokens that end a text.
        recorder: measures time, and runs the measurements.
        generator: the run's own random numbers; the places are filled on the CPU from its seed.
        filling: what is filled, and how.
        model_kwargs: as generate() prepared them, for the text from left to right.

    Yields:
        One Step per pass; the last one comes again with its report.

    Returns:
        (1, length + new) ids, up to the first hidden place or the first token that ends a text.

    Raises:
        DecodeError: there are logits processors.
    """
    if len(logits_processor):
        raise DecodeError("Masked diffusion takes no logits processors: it has no next token.")
    prompt: list[int] = input_ids[0].tolist()
    text = _FilledText(prompt, filling, frozenset(eos_ids(generation_config)))
    draws = torch.Generator().manual_seed(generator.initial_seed())
    step, filler = None, filling.filler
    for made in fill_places(filler.logits, text.ids, filler.mask_id, filling.rule, draws):
        step = text.make_step(made, recorder.elapsed_s())
        yield step
        if _is_stopped(stopping_criteria, input_ids):
            break
    if step is not None and not _is_stopped(stopping_criteria, input_ids):
        compared = _Comparison(model, input_ids, generation_config, model_kwargs, recorder)
        report = recorder.additions.measure(
            "The comparison with a text from left to right",
            lambda: compared.make_report(text, step.index + 1, draws, stopping_criteria),
            None,
        )
        if report is not None:
            assert isinstance(step.detail, FillDetail)
            yield dataclasses.replace(step, detail=dataclasses.replace(step.detail, report=report))
    return torch.cat([input_ids, input_ids.new_tensor([text.emitted])], dim=-1)


def _is_stopped(criteria: StoppingCriteriaList, ids: torch.Tensor) -> bool:
    """Return whether the run was cancelled, ran out of time, or was ended by the caller's criterion."""
    return any(bool(c(ids, None).all()) for c in criteria if not is_text_criterion(c))


@dataclass
class _FilledText:
    """The growing text: the prompt, the new places, and what is whole from the prompt on."""

    prompt: list[int]
    filling: Filling
    ends: frozenset[int]
    emitted: list[int] = field(default_factory=list)
    count: int = 0
    """Passes so far."""

    def __post_init__(self) -> None:
        mask = self.filling.filler.mask_id
        new = [mask if one is None else one for one in self.filling.given]
        self.ids = torch.tensor([*self.prompt, *new])

    def make_step(self, made: Pass, elapsed_s: float) -> Step:
        """Return the step of a pass whose guesses are in ``ids``."""
        columns = (made.places, made.tokens, made.probs, made.entropies, made.committed)
        rows: list[Any] = [column.tolist() for column in columns]
        start, given = len(self.prompt), self.filling.given
        guesses = tuple(
            PlaceGuess(place - start, token, round_significant(p), round_decimals(h), written)
            for place, token, p, h, written in zip(*rows, strict=True)
        )
        known = tuple((i, one) for i, one in enumerate(given) if one is not None)
        detail = FillDetail(made.block, len(given), known, guesses)
        keep, emit = len(self.emitted), self._take_whole()
        self.emitted += emit
        index, self.count = self.count, self.count + 1
        entropy = round_decimals(sum(g.entropy for g in guesses) / len(guesses))
        return Step(index, keep, tuple(emit), (), (), detail, 0.0, entropy, elapsed_s=elapsed_s)

    def _take_whole(self) -> list[int]:
        """Return the tokens up to the next hidden place that are not emitted yet."""
        found: list[int] = []
        # What follows a token that ends a text is not part of it.
        if self.emitted and self.emitted[-1] in self.ends:
            return found
        left: list[int] = self.ids[len(self.prompt) + len(self.emitted) :].tolist()
        for token in left:
            if token == self.filling.filler.mask_id:
                break
            found.append(token)
            if token in self.ends:
                break
        return found


@dataclass
class _Comparison:
    """The same prompt from left to right, and how the main model reads both texts."""

    model: Model
    prompt: torch.Tensor
    generation_config: GenerationConfig
    model_kwargs: dict[str, Any]
    recorder: Recorder

    def make_report(
        self,
        text: _FilledText,
        passes: int,
        draws: torch.Generator,
        criteria: StoppingCriteriaList,
    ) -> FillReport:
        """Measure a filled text of ``passes`` passes and write another of its length."""
        plain = self._write_plain(text, draws, criteria)
        return FillReport(
            self._measure(text.emitted, passes), self._measure(plain, passes=len(plain))
        )

    def _write_plain(
        self, text: _FilledText, draws: torch.Generator, criteria: StoppingCriteriaList
    ) -> list[int]:
        """Return as many tokens from left to right, at the same temperature; fewer if they end."""
        forward = Forward(self.model, self.generation_config, self.model_kwargs)
        warmth, count = text.filling.rule.temperature, len(text.filling.given)
        ids, new = self.prompt, list[int]()
        while len(new) < count and not (new and new[-1] in text.ends):
            self.recorder.additions.progress(len(new), count, "tokens from left to right")
            if _is_stopped(criteria, ids):
                done = Message(
                    "the run was stopped after {done} of {total} tokens.",
                    done=len(new),
                    total=count,
                )
                raise MeasurementStopped(done)
            logits = forward.last_logits(forward(ids), torch.device("cpu"))
            token = draw_tokens(logits / warmth, draws)[0] if warmth else logits.argmax(-1)
            new.append(int(token))
            ids = torch.cat([ids, ids.new_tensor([[new[-1]]])], dim=-1)
        return new

    def _measure(self, new: Sequence[int], passes: int) -> TextMeasure:
        ids = torch.cat([self.prompt, self.prompt.new_tensor([list(new)])], dim=-1)
        logits = self.model(input_ids=ids, use_cache=False).logits[0, -len(new) - 1 : -1].float()
        found = logits.log_softmax(-1).gather(-1, ids[0, -len(new) :, None])[:, 0]
        perplexity = perplexity_from_logprobs(found.tolist())
        distinct = repetition_metrics(new)["distinct_2"]
        return TextMeasure(
            tuple(new), passes, round_significant(perplexity), round_significant(distinct)
        )
