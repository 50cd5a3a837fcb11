"""The steps of a run as a CSV table: one row for each step."""

from __future__ import annotations

import math

from engine.csv_table import to_csv
from engine.trace.records import Step, Trace, chosen_token_id
from engine.trace.served import ServedDetail, is_invented_id

COLUMNS = (
    "step",
    "sequence",
    "keep",
    "token_ids",
    "text",
    "model_logprob_nats",
    "used_logprob_nats",
    "rank_in_model",
    "model_entropy_bits",
    "used_entropy_bits",
    "logsumexp",
    "forward_passes",
    "elapsed_s",
    "second_token_id",
    "second_text",
    "second_model_logprob_nats",
)
SERVED_COLUMNS = (
    "distribution",
    "reported_logprob_nats",
    "unseen_low",
    "unseen_high",
    "entropy_low_bits",
    "entropy_high_bits",
    "merged",
)
"""Further columns of a run that a server decoded."""
_DIGITS = 4


def steps_csv(trace: Trace) -> str:
    """Return the table; steps, sequences and ranks start at 1.

    ``model`` is the model's own distribution, ``used`` the one after all logits processors.
    Log-probabilities are natural logarithms; a token of probability 0 has an empty cell. In a run
    that a server decoded, cells of what it did not report are empty, and further columns have the
    reported numbers and the bounds on the rest.
    """
    if trace.served is None:
        return to_csv(COLUMNS, (_step_row(step, trace) for step in trace.steps))
    rows = (_served_row(step, trace) for step in trace.steps)
    return to_csv((*COLUMNS, *SERVED_COLUMNS), rows)


def _served_row(step: Step, trace: Trace) -> list[object]:
    row = dict(zip(COLUMNS, _step_row(step, trace), strict=True))
    row |= dict.fromkeys(("used_entropy_bits", "forward_passes", "elapsed_s"), "")
    row["token_ids"] = " ".join("" if is_invented_id(i) else str(i) for i in step.emit)
    if is_invented_id(int(row["second_token_id"] or 0)):  # type: ignore[call-overload]
        row["second_token_id"] = ""
    detail = step.detail
    if not isinstance(detail, ServedDetail):
        return list(row.values())
    reported = row["model_logprob_nats"]
    # Candidates hold the one reported number twice: it belongs in one column, and in none if nobody
    # knows which.
    if detail.distribution != "model":
        row |= dict.fromkeys(
            ("model_logprob_nats", "rank_in_model", "second_model_logprob_nats"), ""
        )
    if detail.distribution != "sampled":
        row["used_logprob_nats"] = ""
    return [
        *row.values(),
        detail.distribution,
        reported,
        detail.unseen_low,
        detail.unseen_high,
        _nats_to_bits(detail.entropy_low),
        _nats_to_bits(detail.entropy_high),
        int(detail.merged),
    ]


def _step_row(step: Step, trace: Trace) -> list[object]:
    token = chosen_token_id(step)
    own = next((c for c in step.candidates if c.token_id == token), None)
    others = [c for c in step.candidates if c.token_id != token]
    second = max(others, key=lambda c: c.raw_logprob, default=None)
    return [
        step.index + 1,
        step.sequence + 1,
        step.keep,
        " ".join(map(str, step.emit)),
        "".join(trace.pieces[i] for i in step.emit),
        *(
            [
                _finite_or_empty(own.raw_logprob),
                _finite_or_empty(own.processed_logprob),
                own.rank + 1,
            ]
            if own
            else [""] * 3
        ),
        _nats_to_bits(step.entropy),
        _nats_to_bits(step.stages[-1].entropy if step.stages else step.entropy),
        _finite_or_empty(step.logsumexp),
        step.forward_passes,
        _finite_or_empty(step.elapsed_s),
        second.token_id if second else "",
        trace.pieces[second.token_id] if second else "",
        _finite_or_empty(second.raw_logprob) if second else "",
    ]


def _nats_to_bits(nats: float | None) -> object:
    return "" if nats is None else round(nats / math.log(2), _DIGITS)


def _finite_or_empty(value: float | None) -> object:
    return value if value is not None and math.isfinite(value) else ""
