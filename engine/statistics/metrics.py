"""Metrics of a trace: cost, likelihood and repetition. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.trace.records import EmittedToken, Step, Trace
from engine.trace.served import ServedDetail


def compute_metrics(trace: Trace) -> dict[str, float]:
    """Return the metrics of a trace; metrics without meaning for it are left out.

    Of all outputs: new_tokens, forward_passes, tokens_per_forward, tokens_per_s. Of the first
    output: mean_logprob (nats per token under the model's own distribution), perplexity,
    mean_entropy (nats), rep_2 / rep_3 / rep_4 (share of n-grams that repeat an earlier one),
    distinct_1 / distinct_2 (distinct n-grams over all n-grams).

    A run that a server decoded has no forward passes, and mean_entropy_low and mean_entropy_high in
    place of mean_entropy. Its likelihood is known only if the model's own probabilities are.

    With a custom method, mean_logprob, perplexity and mean_entropy come from one pass over the
    text, since not every token needs a step.
    """
    if not trace.outputs:
        return {}
    ids = trace.outputs[0].token_ids
    new_tokens = sum(len(output.token_ids) for output in trace.outputs)
    forwards = sum(step.forward_passes for step in trace.steps)
    numbers: dict[str, float] = {"new_tokens": new_tokens}
    if trace.served is None:
        numbers["forward_passes"] = forwards
    if forwards:
        numbers["tokens_per_forward"] = new_tokens / forwards
    if trace.timing.total_s > 0:
        numbers["tokens_per_s"] = new_tokens / trace.timing.total_s
    read = trace.emitted[0] if trace.emitted else ()
    logprobs = [token.logprob for token in read] or emitted_logprobs(trace.steps_of(0))
    if logprobs:
        mean = sum(logprobs) / len(logprobs)
        numbers |= {"mean_logprob": mean, "perplexity": perplexity_from_logprobs(logprobs)}
    numbers |= _entropy_metrics(trace, read)
    numbers |= repetition_metrics(ids)
    return {name: round(value, 6) for name, value in numbers.items()}


def _entropy_metrics(trace: Trace, read: Sequence[EmittedToken]) -> dict[str, float]:
    """Return mean_entropy, or its bounds where a server reported a part of each distribution."""
    details = [d for step, d in trace.details(ServedDetail) if step.sequence == 0]
    if details:
        return {
            "mean_entropy_low": sum(d.entropy_low for d in details) / len(details),
            "mean_entropy_high": sum(d.entropy_high for d in details) / len(details),
        }
    entropies = [place.entropy or 0.0 for place in read or trace.steps_of(0)]
    if not entropies or not (read or trace.method is None):
        return {}
    return {"mean_entropy": sum(entropies) / len(entropies)}


def emitted_logprobs(steps: Sequence[Step]) -> list[float]:
    """Return the raw log-probability of every emitted token of one-token steps.

    Empty if a step emits several tokens or revises the output. Its candidates then do not
    describe the final text. Empty, too, if a server did not report the model's own probabilities.
    """
    values: list[float] = []
    for position, step in enumerate(steps):
        if not has_own_probability(step):
            return []
        chosen = [c for c in step.candidates if len(step.emit) == 1 and c.token_id == step.emit[0]]
        if step.keep != position or not chosen:
            return []
        values.append(chosen[0].raw_logprob)
    return values


def has_own_probability(step: Step) -> bool:
    """Return False if a server did not report the model's own probability of a step's token."""
    detail = step.detail
    return not isinstance(detail, ServedDetail) or (
        detail.distribution == "model" and not detail.merged
    )


def perplexity_from_logprobs(logprobs: Sequence[float]) -> float:
    """Return exp(-mean) of a text's token log-probabilities (nats), at least 1."""
    # math.exp overflows above 709.
    return math.exp(min(-math.fsum(logprobs) / len(logprobs), 700.0))


def repetition_metrics(ids: Sequence[int]) -> dict[str, float]:
    """Return rep_2, rep_3, rep_4, distinct_1 and distinct_2 of a text, in [0, 1]."""
    figures = {f"rep_{n}": repetition_rate(ids, n) for n in (2, 3, 4)}
    return figures | {f"distinct_{n}": 1.0 - repetition_rate(ids, n) for n in (1, 2)}


def repetition_rate(ids: Sequence[int], n: int) -> float:
    """Return 1 - distinct n-grams / n-grams, 0 for a text shorter than n (1908.04319)."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0
