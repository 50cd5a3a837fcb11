"""Summary of drafting by rounds: outcome of every drafted token, and the cost of the run."""

from __future__ import annotations

from typing import Any

from engine.trace.details import DraftDetail, DraftReport, DraftToken
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail

MIN_PROCESSOR_SHARE = 0.8
"""Timings in which the decoding thread had the processor for a smaller share are discarded."""
IMPOSSIBLE_SPEED_UP = "the two timings gave more than the tokens of a pass of the main model allow"
MIN_P_VALUE = 0.001
"""Below this p-value the measured distributions count as different."""


class DraftSummary:
    """Accumulates the rounds of a run.

    Values per step:

    - ``count_accepted``: number of accepted tokens of the draft.
    - ``ratio``, ``mixture``: per drafted token, its chance of acceptance, and its probability in
      the mixture of both models (None without a mixture).
    - ``pace``: tokens per target pass so far. ``most``: largest value in a chart of the rounds.
    - ``places``: (accepted, judged, acceptance rate) for every position in a draft.
    - ``figures``: totals and rates of the run so far.
    - ``plain``: speed of the plain run with ``speed_up``, or ``why`` there is none; None without
      one.
    - ``same``: True if the measured distributions match the target's; None if not measured.
    - ``weights``: shares of target and draft model in the mixture; None without a mixture.
    """

    def __init__(self, run: Trace) -> None:
        self.device = run.model.device.split(":")[0]
        self.weight: float | None = run.config.get("assistant_ensemble_weight")
        self.tree = bool(run.config.get("draft_tree"))
        self.rounds = self.tokens = self.drafted = self.accepted = self.forwards = 0
        self.draft_s = self.verify_s = 0.0
        self.places: list[list[int]] = []
        self.most = 1.0

    def add(self, step: Step) -> StepSummary | None:
        """Add a round and return its values; None without a draft detail."""
        detail = step.detail
        if not isinstance(detail, DraftDetail):
            return None
        self._count_round(step, detail)
        return {
            "accepted": count_accepted(detail),
            "ratio": [acceptance_ratio(token, self.weight) for token in detail.tokens],
            "mixture": [mixture_probability(token, self.weight) for token in detail.tokens],
            "pace": self.tokens / self.rounds,
            "most": self.most,
            "places": [[k, n, _share_of_total(k, n - k)] for k, n in self.places],
            "figures": self._run_figures(step),
            "plain": self._compare_with_plain(step, detail),
            "same": _is_same_distribution(detail),
            "weights": None if self.weight is None else [self.weight, 1 - self.weight],
        }

    def _count_round(self, step: Step, detail: DraftDetail) -> None:
        self.rounds += 1
        self.tokens += len(step.emit)
        self.drafted += detail.draft_length
        self.accepted += count_accepted(detail)
        self.forwards += detail.draft_forwards
        self.draft_s += detail.draft_s
        self.verify_s += detail.verify_s
        for place, token in enumerate(detail.tokens):
            if token.status == "unverified":
                continue  # a token that was never judged is neither accepted nor rejected
            while len(self.places) <= place:
                self.places.append([0, 0])
            self.places[place][0] += token.status == "accepted"
            self.places[place][1] += 1
        pace = self.tokens / self.rounds
        self.most = max(self.most, detail.requested_length, detail.draft_length, pace)

    def _run_figures(self, step: Step) -> dict[str, float | None]:
        judged = sum(count for _, count in self.places)
        rate = self.accepted / judged if judged else None
        cost = self.draft_s / self.verify_s if self.verify_s else 0.0
        length = self.drafted / self.rounds
        return {
            "tokens": self.tokens,
            "rounds": self.rounds,
            "tokens_per_target_pass": self.tokens / self.rounds,
            "draft_passes": self.forwards,
            "draft_length": length,
            "accepted_per_round": self.accepted / self.rounds,
            "acceptance_rate": rate,
            "draft_s": self.draft_s,
            "verify_s": self.verify_s,
            "draft_share": _share_of_total(self.draft_s, self.verify_s),
            "target_pass_s": self.verify_s / self.rounds,
            "tokens_per_s": self.tokens / step.elapsed_s if step.elapsed_s else None,
            "cost_ratio": cost,
            "expected_speed_up": self._plausible_speed_up(rate or 0.0, length, cost),
        }

    def _plausible_speed_up(self, rate: float, length: float, cost: float) -> float | None:
        """Return the papers' expected speed-up; None above this run's tokens per pass, and for trees."""
        expected = expected_speed_up(rate, length, cost)
        return None if self.tree or expected > self.tokens / self.rounds else expected

    def _compare_with_plain(self, step: Step, detail: DraftDetail) -> dict[str, Any] | None:
        """Return the speed of the plain run and the speed-up of this one.

        If either timing was disturbed, or the two are inconsistent, ``speed_up`` is None and
        ``why`` gives the reason.
        """
        report = detail.report
        if report is None or not (report.plain_tokens and report.plain_s and step.elapsed_s):
            return None
        speed = report.plain_tokens / report.plain_s
        speed_up = self.tokens / step.elapsed_s / speed
        why = self._timing_disturbance(report) or (
            IMPOSSIBLE_SPEED_UP if speed_up > self.tokens / self.rounds else ""
        )
        return {
            "tokens_per_s": speed,
            "token_s": report.plain_s / report.plain_tokens,
            "speed_up": None if why else speed_up,
            "why": why,
        }

    def _timing_disturbance(self, report: DraftReport) -> str:
        """Return what disturbed the timing of this run or the plain run; "" if nothing is known."""
        if report.others:
            return "other runs were going on"
        share = report.processor_share
        # With a GPU the thread waits for the device, so its processor share says nothing.
        if self.device == "cpu" and share is not None and share < MIN_PROCESSOR_SHARE:
            return "the processor was busy with other work"
        return ""


def acceptance_ratio(token: DraftToken, weight: float | None = None) -> float | None:
    """Return the probability that a drafted token is accepted; None without q.

    Args:
        token: a drafted token with p and q.
        weight: ``assistant_ensemble_weight`` w: the probability is min(1, 1 - w + w * p / q); with
            None it is min(1, p / q).
    """
    w = 1.0 if weight is None else weight
    return None if not token.q else round(min(1.0, 1 - w + w * token.p / token.q), 6)


def mixture_probability(token: DraftToken, weight: float | None) -> float | None:
    """Return a token's probability in the mixture w * p + (1 - w) * q; None without w or q."""
    if weight is None or token.q is None:
        return None
    return weight * token.p + (1 - weight) * token.q


def count_accepted(detail: DraftDetail) -> int:
    """Return the number of accepted tokens of a round."""
    return sum(token.status == "accepted" for token in detail.tokens)


def _is_same_distribution(detail: DraftDetail) -> bool | None:
    measured = detail.report.distributions if detail.report else ()
    return min(check.p_value for check in measured) > MIN_P_VALUE if measured else None


def expected_speed_up(rate: float, length: float, cost: float) -> float:
    """Return the expected speed-up of Leviathan et al. (2211.17192, theorem 3.8).

    Args:
        rate: acceptance rate of a drafted token, in [0, 1].
        length: tokens per draft.
        cost: time of a whole draft divided by that of one target pass.
    """
    # The geometric series has this limit at rate 1, where its formula divides by zero.
    tokens = length + 1 if rate > 0.9999 else (1 - rate ** (length + 1)) / (1 - rate)
    return tokens / (1 + cost)


def _share_of_total(part: float, rest: float) -> float:
    return part / (part + rest) if part + rest else 0.0


VISUALS = (
    Visual("draft_round", None, has_detail(DraftDetail), order=49),
    Visual("draft_timeline", DraftSummary, has_detail(DraftDetail), order=50),
)
