"""Drafting round by round: every drafted token with p, q, u and its fate, and what the run cost."""

from __future__ import annotations

from typing import Any

from engine.trace.details import DraftDetail, DraftToken
from engine.trace.records import Step, Trace

COLUMNS = ["round", "place", "token", "p", "q", "kept if u ≤", "u", "status"]


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per drafted and per final token, and draft lengths as a Plotly figure."""
    rounds = trace.details(DraftDetail)
    rows = [row for step, detail in rounds for row in _rows(step, detail, trace)]
    return {"columns": COLUMNS, "rows": rows, "figure": figure(rounds), "summary": summary(trace)}


def acceptance_ratio(token: DraftToken, weight: float | None = None) -> float | None:
    """Return the chance that a drafted token is kept; None without q.

    Args:
        token: with p and q.
        weight: ``assistant_ensemble_weight`` w; the chance is min(1, 1 - w + w * p / q), without
            it min(1, p / q).
    """
    w = 1.0 if weight is None else weight
    return None if not token.q else round(min(1.0, 1 - w + w * token.p / token.q), 6)


def _rows(step: Step, detail: DraftDetail, trace: Trace) -> list[list[Any]]:
    number = step.index + 1
    weight = trace.config.get("assistant_ensemble_weight")
    rows: list[list[Any]] = []
    for place, t in enumerate(detail.tokens, start=1):
        ratio = acceptance_ratio(t, weight)
        rows.append([number, place, trace.pieces[t.token_id], t.p, t.q, ratio, t.u, t.status])
    if detail.final_source != "ended":
        final = trace.pieces[detail.final_token_id]
        rows.append([number, None, final, None, None, None, None, detail.final_source])
    return rows


def accepted(detail: DraftDetail) -> int:
    """Return how many drafted tokens of a round were kept."""
    return sum(token.status == "accepted" for token in detail.tokens)


def figure(rounds: list[tuple[Step, DraftDetail]]) -> dict[str, Any]:
    """Return asked, drafted and accepted tokens per round, and tokens per target pass so far."""
    x = [step.index + 1 for step, _ in rounds]
    emitted, running = 0, []
    for count, (step, _) in enumerate(rounds, start=1):
        emitted += len(step.emit)
        running.append(round(emitted / count, 4))
    bars = {
        "asked": [detail.requested_length for _, detail in rounds],
        "drafted": [detail.draft_length for _, detail in rounds],
        "accepted": [accepted(detail) for _, detail in rounds],
    }
    data: list[dict[str, Any]] = [
        {"type": "bar", "x": x, "y": y, "name": name} for name, y in bars.items()
    ]
    data.append({"type": "scatter", "x": x, "y": running, "name": "tokens per target pass"})
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "round"}},
        "yaxis": {"title": {"text": "tokens"}},
    }
    return {"data": data, "layout": layout}


def by_place(trace: Trace) -> list[tuple[int, int]]:
    """Return (accepted, judged) for every place of a draft; unjudged tokens do not count."""
    counts: list[list[int]] = []
    for _, detail in trace.details(DraftDetail):
        for place, token in enumerate(detail.tokens):
            if token.status == "unverified":
                continue
            while len(counts) <= place:
                counts.append([0, 0])
            counts[place][0] += token.status == "accepted"
            counts[place][1] += 1
    return [(kept, judged) for kept, judged in counts]


def summary(trace: Trace) -> dict[str, float]:
    """Return what the run cost and what the papers expect of it.

    Keys: rounds, tokens_per_target_pass, draft_passes, accepted_per_round, acceptance_rate (of the
    judged tokens), draft_s, verify_s, cost_ratio (a draft's time over a target pass's),
    expected_speed_up (2211.17192, theorem 3.8); measured_speed_up when a plain run was measured.
    """
    rounds = trace.details(DraftDetail)
    if not rounds:
        return {}
    tokens = sum(len(step.emit) for step, _ in rounds)
    kept = sum(accepted(detail) for _, detail in rounds)
    judged = sum(count for _, count in by_place(trace))
    draft_s = sum(detail.draft_s for _, detail in rounds)
    verify_s = sum(detail.verify_s for _, detail in rounds)
    rate = kept / judged if judged else 0.0
    ratio = draft_s / verify_s if verify_s else 0.0
    length = sum(detail.draft_length for _, detail in rounds) / len(rounds)
    numbers = {
        "rounds": len(rounds),
        "tokens_per_target_pass": tokens / len(rounds),
        "draft_passes": sum(detail.draft_forwards for _, detail in rounds),
        "accepted_per_round": kept / len(rounds),
        "acceptance_rate": rate,
        "draft_s": draft_s,
        "verify_s": verify_s,
        "cost_ratio": ratio,
        "expected_speed_up": expected_speed_up(rate, length, ratio),
    }
    last, detail = rounds[-1]
    report = detail.report
    if report is not None and report.plain_tokens and report.plain_s and last.elapsed_s:
        plain = report.plain_tokens / report.plain_s
        numbers["measured_speed_up"] = tokens / last.elapsed_s / plain
    return {name: round(value, 6) for name, value in numbers.items()}


def expected_speed_up(rate: float, length: float, cost: float) -> float:
    """Return the speed-up that Leviathan et al. (2211.17192) expect.

    Args:
        rate: acceptance rate of a drafted token, in [0, 1].
        length: tokens a draft.
        cost: a whole draft's time over one target pass's.
    """
    tokens = length + 1 if rate > 0.9999 else (1 - rate ** (length + 1)) / (1 - rate)
    return tokens / (1 + cost)
