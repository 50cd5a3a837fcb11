"""Checks whether an assisted run is lossless, measured on the run itself.

Greedy: one teacher-forced pass over the finished text gives the target's own choice at every
position, unless its weights are quantised. Sampling: many short runs are compared with the target's
exact distribution. On request, a plain run of the same prompt is timed for comparison.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.drafter import MakeDrafter, RunContext
from engine.loops.drafting.round_record import AfterRun
from engine.loops.forward import select_media_inputs, with_empty_cache
from engine.loops.next_token import next_token_loop
from engine.loops.optional_measurements import MeasurementStopped, OptionalMeasurements
from engine.loops.recorder import Recorder, round_decimals, round_significant, run_processors
from engine.messages import Message
from engine.model_code import FORWARD_PASS, ModelCall
from engine.timing_noise import NoiseMonitor, work_time
from engine.trace.details import DistributionCheck, DraftDetail, DraftReport, Parting
from engine.trace.records import Step

MIN_EXPECTED = 5.0
MAX_BINS = 24
TIE_MARGIN = 1e-3

ProgressCallback = Callable[[int, int, str], None]
"""Progress callback: units done, units in all, and the unit."""


def _ignore_progress(done: int, total: int, what: str) -> None:
    del done, total, what


def make_report_hook(config: Any, make_drafter: MakeDrafter) -> AfterRun:
    """Return the hook that adds the report to the loop's last step.

    Call it in the run's thread before the first round: it watches other load from then on.

    Args:
        config: a drafting strategy's config.
        make_drafter: builds the drafter for the repeated short runs.
    """
    timed = NoiseMonitor()

    def after(
        additions: OptionalMeasurements,
        context: RunContext,
        prepared: dict[str, Any],
        ids: torch.Tensor,
        step: Step,
    ) -> Step:
        detail = step.detail
        if not isinstance(detail, DraftDetail) or is_interrupted(context):
            return step
        report = make_report(config, make_drafter, context, prepared, ids, additions, timed)
        return dataclasses.replace(step, detail=dataclasses.replace(detail, report=report))

    return after


def make_report(
    config: Any,
    make_drafter: MakeDrafter,
    context: RunContext,
    prepared: dict[str, Any],
    ids: torch.Tensor,
    additions: OptionalMeasurements,
    timed: NoiseMonitor,
) -> DraftReport:
    """Measure a finished run; see DraftReport. Failed checks become notes of ``additions``.

    ``timed`` must have watched the run since it began.
    """
    company = [timed.measure()]
    new: list[int] = ids[0, context.input_ids.shape[1] :].tolist()
    started = work_time()
    # A run with ensemble verification is lossy by design and is not checked.
    by_design = getattr(config, "assistant_ensemble_weight", None) is not None
    check = not config.do_sample and not by_design
    checked, parting = 0, None
    if check:
        checked, parting = additions.measure(
            "The check against the main model alone",
            lambda: (len(new), find_first_parting(context, prepared, ids, additions.progress)),
            (0, None),
        )
    check_s = work_time() - started
    plain: list[int] = []
    plain_s = 0.0
    if config.plain_run:
        beside = NoiseMonitor()
        plain, plain_s = additions.measure(
            "The plain run",
            lambda: run_without_draft(context, prepared, additions.progress),
            (plain, plain_s),
        )
        company.append(beside.measure())
    distributions: tuple[DistributionCheck, ...] = ()
    if config.distribution_runs:
        distributions = additions.measure(
            "The comparison of distributions",
            lambda: check_distribution(
                context, prepared, make_drafter, config.distribution_runs, additions.progress
            ),
            (),
        )
    return DraftReport(
        checked=checked,
        parting=parting,
        check_s=round_decimals(check_s),
        plain_tokens=len(plain),
        plain_s=round_decimals(plain_s),
        plain_identical=None if config.do_sample or not plain else plain == new,
        distributions=distributions,
        others=max(found.others for found in company),
        processor_share=round_significant(min(found.share for found in company)),
    )


def find_first_parting(
    context: RunContext,
    prepared: dict[str, Any],
    ids: torch.Tensor,
    tell: ProgressCallback = _ignore_progress,
) -> Parting | None:
    """Return the first new token that is not the target's greedy choice, or None.

    Args:
        context: the run.
        prepared: model_kwargs at the start of the run.
        ids: (1, prompt + new) the finished text.
        tell: progress callback.

    Raises:
        MeasurementStopped: the run was stopped, or the target's weights are quantised.
    """
    # LLM.int8 scales all rows of a pass together, and 4-bit weights use another kernel for one row.
    # One pass over a text therefore differs from its rounds, and neither proves the other wrong.
    if getattr(context.model, "hf_quantizer", None) is not None:
        raise MeasurementStopped(
            "with quantised weights the sums of a pass depend on how many tokens it reads, so no "
            "other pass can say what the main model would have chosen."
        )
    start = context.input_ids.shape[1]
    count = ids.shape[1] - start
    tell(0, count, "tokens against the main model alone")
    logits = uncached_logits(context, prepared, ids, count + 1)[:-1]
    for place, raw in enumerate(logits):
        raise_if_stopped(context, place, count, "tokens")
        scores = run_processors(context.processors, ids[:, : start + place], raw[None])[0][0]
        expected, emitted = int(scores.argmax()), int(ids[0, start + place])
        if expected != emitted:
            return _make_parting(context, place, emitted, expected, scores)
    return None


def _make_parting(
    context: RunContext, place: int, emitted: int, expected: int, scores: torch.Tensor
) -> Parting:
    low, high = float(scores[emitted]), float(scores[expected])
    # A gap within rounding is a tie, not a mismatch.
    rounding = 4 * torch.finfo(context.model.dtype).eps * max(1.0, abs(high))
    return Parting(
        place,
        emitted,
        expected,
        round_decimals(low),
        round_decimals(high),
        round_decimals(high - low),
        high - low <= max(TIE_MARGIN, rounding),
    )


@ModelCall(FORWARD_PASS)
def uncached_logits(
    context: RunContext, prepared: dict[str, Any], ids: torch.Tensor, count: int
) -> torch.Tensor:
    """Return (count, vocab) float32 logits of one uncached pass over (1, length) ids."""
    last_only = {"logits_to_keep": count} if context.model._supports_logits_to_keep() else {}
    if not context.model.config.is_encoder_decoder:
        media = select_media_inputs(prepared, ids.shape[1])
        logits = context.model(input_ids=ids, use_cache=False, **media, **last_only).logits
        return logits[0, -count:].float()
    encoder = {name: prepared.get(name) for name in ("encoder_outputs", "attention_mask")}
    logits = context.model(**encoder, decoder_input_ids=ids, use_cache=False).logits
    return logits[0, -count:].float()


def run_without_draft(
    context: RunContext, prepared: dict[str, Any], tell: ProgressCallback = _ignore_progress
) -> tuple[list[int], float]:
    """Decode the same prompt without a drafter; return the new tokens and the seconds.

    Raises:
        MeasurementStopped: the run was stopped, so its time means nothing.
    """
    prompt = context.input_ids
    # The run's generator has advanced, so a new one starts from its seed.
    generator = torch.Generator(prompt.device).manual_seed(context.generator.initial_seed())
    most = context.max_length - prompt.shape[1]
    started = work_time()
    ids = _run_to_end(
        next_token_loop(
            context.model,
            prompt,
            context.processors,
            context.stopping,
            context.generation_config,
            recorder=Recorder(),
            generator=generator,
            **with_empty_cache(context.model, prepared),
        ),
        lambda done: tell(done, most, "tokens of a plain run, to compare with"),
    )
    seconds = work_time() - started
    new: list[int] = ids[0, prompt.shape[1] :].tolist()
    raise_if_stopped(context, len(new), most, "tokens")
    return new, seconds


def check_distribution(
    context: RunContext,
    prepared: dict[str, Any],
    make_drafter: MakeDrafter,
    runs: int,
    tell: ProgressCallback = _ignore_progress,
) -> tuple[DistributionCheck, ...]:
    """Compare the first one and two tokens of many short runs with the exact distribution.

    Raises:
        MeasurementStopped: the run was stopped.
    """
    generator = torch.Generator(context.input_ids.device)
    generator.manual_seed(context.generator.initial_seed())
    pairs: list[tuple[int, ...]] = []
    while len(pairs) < runs and not is_interrupted(context):
        tell(len(pairs), runs, "short runs against the main model's exact distribution")
        pairs.append(tuple(sample_short_run(context, prepared, make_drafter, generator, 2)))
    raise_if_stopped(context, len(pairs), runs, "runs")
    first, second = exact_probabilities(context, prepared, len(pairs))
    ones = chi_square_test(Counter(pair[:1] for pair in pairs), first, 1)
    return ones, chi_square_test(Counter(pairs), second, 2)


def sample_short_run(
    context: RunContext,
    prepared: dict[str, Any],
    make_drafter: MakeDrafter,
    generator: torch.Generator,
    count: int,
) -> list[int]:
    """Return the first ``count`` tokens of one assisted run; fewer if the text ends before."""
    prompt = context.input_ids
    end = prompt.shape[1] + count
    ends = context.eos_token_ids

    def stop(ids: torch.Tensor, scores: Any) -> torch.Tensor:
        del scores
        ended = int(ids[0, -1]) in ends
        return torch.tensor([ids.shape[1] >= end or ended], device=ids.device)

    ids = _run_to_end(
        assisted_loop(
            context.model,
            prompt,
            context.processors,
            stop,
            context.generation_config,
            recorder=Recorder(1),
            generator=generator,
            make_drafter=make_drafter,
            **with_empty_cache(context.model, prepared),
        )
    )
    return ids[0, prompt.shape[1] :].tolist()


def exact_probabilities(
    context: RunContext, prepared: dict[str, Any], runs: int
) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], float]]:
    """Return the target's exact probabilities of first tokens and of frequent pairs."""
    prompt = context.input_ids
    p = _next_token_probabilities(context, prepared, prompt)
    chances: list[float] = p.tolist()
    first = {(i,): v for i, v in enumerate(chances) if v > 0}
    ends = context.eos_token_ids
    pairs: dict[tuple[int, ...], float] = {}
    for (token,), probability in sorted(first.items(), key=lambda item: -item[1]):
        # Rarer pairs share the last bin, so they need no pass.
        if probability * runs < MIN_EXPECTED:
            break
        if token in ends:
            pairs[(token,)] = probability
            continue
        ids = torch.cat([prompt, prompt.new_tensor([[token]])], dim=-1)
        after: list[float] = _next_token_probabilities(context, prepared, ids).tolist()
        pairs |= {(token, i): probability * v for i, v in enumerate(after) if v > 0}
    return first, pairs


def _next_token_probabilities(
    context: RunContext, prepared: dict[str, Any], ids: torch.Tensor
) -> torch.Tensor:
    raw = uncached_logits(context, prepared, ids, 1)
    return torch.softmax(run_processors(context.processors, ids, raw)[0], dim=-1)[0]


def chi_square_test(
    observed: Counter[tuple[int, ...]],
    exact: dict[tuple[int, ...], float],
    length: int,
    most: int = MAX_BINS,
) -> DistributionCheck:
    """Return Pearson's chi-square test of counts against probabilities.

    Outcomes expected fewer than 5 times share one bin, as the test requires.
    """
    runs = sum(observed.values())
    common = sorted(exact, key=lambda key: -exact[key])[:most]
    common = [key for key in common if exact[key] * runs >= MIN_EXPECTED]
    bins = [(key, observed[key], exact[key] * runs) for key in common]
    rest = runs - sum(expected for _, _, expected in bins)
    rest_count = runs - sum(count for _, count, _ in bins)
    if rest >= MIN_EXPECTED or not bins:
        bins.append(((), rest_count, max(rest, 1e-9)))
    # Too little for a bin: the rest joins the last one.
    elif rest > 0 or rest_count:
        key, count, expected = bins.pop()
        bins.append((key, count + rest_count, expected + max(rest, 0.0)))
    statistic, degrees = (
        chi_square_statistic((count, expected) for _, count, expected in bins),
        len(bins) - 1,
    )
    return DistributionCheck(
        length,
        runs,
        round_decimals(statistic),
        degrees,
        round_significant(chi_square_p_value(statistic, degrees)),
        tuple((key, count, round_decimals(expected)) for key, count, expected in bins),
    )


def chi_square_statistic(pairs: Iterable[tuple[int, float]]) -> float:
    """Return the sum of (observed - expected)^2 / expected."""
    return sum((count - expected) ** 2 / expected for count, expected in pairs)


def chi_square_p_value(statistic: float, degrees: int) -> float:
    """Return the probability of a chi-square statistic at least this large."""
    if degrees < 1:
        return 1.0
    half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    return float(torch.igammac(half[0], half[1]))


def _run_to_end(steps: Any, after: Callable[[int], None] = lambda done: None) -> torch.Tensor:
    """Run a loop to its end and return its ids; call ``after`` with the count of each step."""
    try:
        for done in itertools.count(1):
            next(steps)
            after(done)
        raise AssertionError("counting ends never")
    except StopIteration as stop:
        return stop.value


def raise_if_stopped(context: RunContext, done: int, total: int, what: str) -> None:
    """Raise MeasurementStopped if the run was stopped: half a measurement would look like a whole one."""
    if any(
        getattr(c, "cancelled", None) is not None and c.cancelled.is_set() for c in context.stopping
    ):
        template = (
            "the run was stopped after {done} of {total} runs."
            if what == "runs"
            else "the run was stopped after {done} of {total} tokens."
        )
        raise MeasurementStopped(Message(template, done=done, total=total))


def is_interrupted(context: RunContext) -> bool:
    """Return whether the run was cancelled or ran out of time."""
    for criterion in context.stopping:
        cancelled = getattr(criterion, "cancelled", None)
        if getattr(criterion, "expired", False) or (cancelled is not None and cancelled.is_set()):
            return True
    return False
