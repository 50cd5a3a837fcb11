"""The steps of a run as a table for spreadsheets: one row a step."""

from __future__ import annotations

import csv
import io
import math

from engine.trace.records import Step, Trace

COLUMNS = (
    "step",
    "sequence",
    "keep",
    "token_ids",
    "text",
    "raw_logprob",
    "processed_logprob",
    "rank",
    "entropy_nats",
    "logsumexp",
    "forward_passes",
    "elapsed_s",
    "second_token_id",
    "second_text",
    "second_raw_logprob",
)
# A spreadsheet would run a cell that starts with one of these.
_ACTIVE = ("=", "+", "-", "@", "\t", "\r")


def steps_csv(trace: Trace) -> str:
    """Return the table; log-probabilities are natural logarithms, impossible ones are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for step in trace.steps:
        writer.writerow(_row(step, trace))
    return out.getvalue()


def _row(step: Step, trace: Trace) -> list[object]:
    own = next((c for c in step.candidates if step.emit and c.token_id == step.emit[-1]), None)
    others = [c for c in step.candidates if not step.emit or c.token_id != step.emit[-1]]
    second = max(others, key=lambda c: c.raw_logprob, default=None)
    return [
        step.index,
        step.sequence,
        step.keep,
        " ".join(map(str, step.emit)),
        _text("".join(trace.pieces[i] for i in step.emit)),
        *(
            [_number(own.raw_logprob), _number(own.processed_logprob), own.rank]
            if own
            else [""] * 3
        ),
        _number(step.entropy),
        _number(step.logsumexp),
        step.forward_passes,
        _number(step.elapsed_s),
        second.token_id if second else "",
        _text(trace.pieces[second.token_id]) if second else "",
        _number(second.raw_logprob) if second else "",
    ]


def _number(value: float) -> object:
    return value if math.isfinite(value) else ""


def _text(text: str) -> str:
    return f"'{text}" if text.startswith(_ACTIVE) else text
