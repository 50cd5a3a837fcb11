"""The steps of a run as a CSV table: one row for each step."""

from __future__ import annotations

import math

from engine.csv_table import to_csv
from engine.trace.records import Step, Trace, chosen_token_id

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
_DIGITS = 4


def steps_csv(trace: Trace) -> str:
    """Return the table; steps, sequences and ranks start at 1.

    ``model`` is the model's own distribution, ``used`` the one after all logits processors.
    Log-probabilities are natural logarithms; a token of probability 0 has an empty cell.
    """
    return to_csv(COLUMNS, (_step_row(step, trace) for step in trace.steps))


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


def _nats_to_bits(nats: float) -> float:
    return round(nats / math.log(2), _DIGITS)


def _finite_or_empty(value: float) -> object:
    return value if math.isfinite(value) else ""
