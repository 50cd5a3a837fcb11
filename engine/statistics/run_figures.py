"""The figures of a recorded run that a sentence may quote. No torch."""

from __future__ import annotations

from engine.statistics.watermark_statistics import z_score
from engine.trace.details import BeamDetail, WatermarkDetail
from engine.trace.records import Trace

_METRICS = ("rep_3", "perplexity", "tokens_per_forward")


def quotable_figures(trace: Trace) -> dict[str, float]:
    """Return the quotable figures of a run, as far as it has them.

    Keys: ``rep_3``, ``perplexity`` and ``tokens_per_forward`` from its metrics; ``outputs`` and
    ``first_words``, the numbers of texts and of different first tokens; ``score`` and
    ``greedy_score``, length-penalised sums of log-probabilities of a search's best text and of the
    greedy path; ``z`` of green lists over the scored tokens.
    """
    firsts = {output.token_ids[0] for output in trace.outputs if output.token_ids}
    found = {name: trace.metrics[name] for name in _METRICS if name in trace.metrics}
    found |= {"outputs": len(trace.outputs), "first_words": len(firsts)}
    detail = trace.steps[-1].detail if trace.steps else None
    if isinstance(detail, BeamDetail) and detail.greedy is not None:
        found["greedy_score"] = detail.greedy.score
        if trace.outputs[0].score is not None:
            found["score"] = trace.outputs[0].score
    if isinstance(detail, WatermarkDetail):
        marks = [s.detail for s in trace.steps if isinstance(s.detail, WatermarkDetail)]
        green = [bool(mark.is_green) for mark in marks if mark.scored and not mark.g_values]
        z = z_score(sum(green), len(green), detail.expected) if green else None
        if z is not None:
            found["z"] = round(z, 6)
    return found
