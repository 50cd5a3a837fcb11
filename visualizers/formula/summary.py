"""Summary of a step's formulas, filled in with its recorded numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from engine.statistics.metrics import has_own_probability
from engine.statistics.watermark_statistics import Z_THRESHOLD, WatermarkCount
from engine.trace.details import (
    BeamDetail,
    ContrastiveDetail,
    DraftDetail,
    DraftToken,
    ForwardDetail,
    LayerDetail,
    WatermarkDetail,
    find_draw,
)
from engine.trace.records import Candidate, Step, Trace, chosen_token_id
from engine.trace.served import ServedDetail
from visualizers.base import StepSummary, Visual, is_decided_here
from visualizers.draft_timeline.summary import DraftSummary
from visualizers.formula import beam_formulas, processor_formulas
from visualizers.formula.forms import fill_formula, formula_without_numbers, number_setting
from visualizers.watermark.summary import count_hits

FormulaLine = dict[str, Any]
_NOT_ARGMAX_DETAILS = (ContrastiveDetail, LayerDetail, ForwardDetail)
"""Details of steps that do not choose the most probable token, or whose choice is unknown."""
_RELATIVE_TOP = 0.1
"""DoLa's mask: smallest probability relative to the top token's."""
_CERTAIN_RATE = 0.9999
_MAX_DRAFTED_LINES = 6
"""Number of drafted tokens whose acceptance is shown as a formula."""


class FormulaSummary:
    """Fills in the formulas of each step.

    Values per step: ``lines``, each with ``form``, ``of`` (token id), ``with`` (operands as texts)
    and ``is`` (result as text); see ``forms.filled``. A line without operands has no numbers.
    """

    def __init__(self, run: Trace) -> None:
        self.config = run.config
        self.rounds = DraftSummary(run)
        self.counts: dict[int, WatermarkCount] = {}
        self.texts: dict[int, list[int]] = {}
        self.prompt = [] if run.model.is_encoder_decoder else list(run.prompt_ids)
        self.sums: dict[int, float] = {}

    def add(self, step: Step) -> StepSummary:
        """Add a step and return its formulas."""
        text = self.texts.setdefault(step.sequence, [])
        before = [*self.prompt, *text[: step.keep]]
        lines = [line for line in self._step_formulas(step, before) if line is not None]
        text[step.keep :] = step.emit
        return {"lines": lines}

    def _step_formulas(self, step: Step, before: Sequence[int]) -> Iterator[FormulaLine | None]:
        detail = step.detail
        if isinstance(detail, ServedDetail):
            yield _served_surprise(step)
        elif isinstance(detail, BeamDetail):
            yield from beam_formulas.iter_beam_formulas(detail, self.config, self.sums, step.index)
        elif isinstance(detail, DraftDetail):
            yield from self._draft_formulas(step, detail)
        else:
            yield from self._token_formulas(step, before)

    def _token_formulas(self, step: Step, before: Sequence[int]) -> Iterator[FormulaLine | None]:
        """Yield the formulas of a step that decided one token."""
        if not step.emit:
            return
        detail, token = step.detail, chosen_token_id(step)
        assert token is not None
        own = next((c for c in step.candidates if c.token_id == token), None)
        if own is not None:
            yield _model_softmax(step, own)
            if isinstance(detail, LayerDetail):
                yield from _dola_formulas(detail, token)
            elif not isinstance(detail, ForwardDetail):
                yield from processor_formulas.iter_processor_formulas(
                    step, own, self.config, before
                )
        if isinstance(detail, ContrastiveDetail):
            yield from self._contrastive_formulas(detail)
        draw = find_draw(detail)
        if draw is not None:
            first = draw.racers[0]
            yield fill_formula("race", token, first.arrival, e=first.noise, p=first.probability)
        elif not isinstance(detail, _NOT_ARGMAX_DETAILS) and own is not None:
            yield formula_without_numbers("argmax", token)
        if isinstance(detail, WatermarkDetail):
            yield from self._watermark_formulas(step, detail)
        if own is not None and own.raw_logprob > -math.inf:
            yield _surprise(own)

    def _contrastive_formulas(self, detail: ContrastiveDetail) -> Iterator[FormulaLine | None]:
        alpha = number_setting(self.config, "penalty_alpha", 0.0)
        for place in dict.fromkeys((detail.chosen, 0)):
            o = detail.options[place]
            yield fill_formula(
                "contrastive", o.token_id, o.score, a=alpha, p=o.probability, s=o.max_cosine
            )

    def _watermark_formulas(
        self, step: Step, detail: WatermarkDetail
    ) -> Iterator[FormulaLine | None]:
        hits, flips = count_hits(detail), max(1, len(detail.g_values))
        if detail.g_values:
            yield formula_without_numbers("tournament")
            yield fill_formula("ones", step.emit[-1], h=hits, n=flips)
        count = self.counts.setdefault(
            step.sequence, WatermarkCount(flips, detail.expected, detail.chance)
        )
        count.add(scored=detail.scored, fresh=detail.fresh, hits=hits)
        found = count.verdict(number_setting(self.config, "z_threshold", Z_THRESHOLD))
        if found is None:
            return
        yield fill_formula(
            "z", None, found.z_score, h=found.hits, n=found.trials, g=detail.expected
        )
        yield fill_formula(
            "tail",
            None,
            found.p_value,
            h=found.distinct_hits,
            n=found.distinct_trials,
            g=detail.chance,
        )

    def _draft_formulas(self, step: Step, detail: DraftDetail) -> Iterator[FormulaLine | None]:
        weight = self.rounds.weight
        judged = [token for token in detail.tokens if token.status != "unverified"]
        drawn = [token for token in judged if token.u is not None and token.q]
        # The last ones are shown, as they decided where the draft ended.
        for token in drawn[-_MAX_DRAFTED_LINES:]:
            yield self._acceptance_formula(token)
        if judged and not drawn:
            yield self._match_formula(judged[-1], detail)
        if detail.final_source == "resampled" and drawn and weight is None:
            last = drawn[-1]
            yield fill_formula("residual", last.token_id, p=last.p, q=last.q or 0.0)
        shown = self.rounds.add(step)
        if shown is None:
            return
        figures = shown["figures"]
        rate, expected = figures["acceptance_rate"] or 0.0, figures["expected_speed_up"]
        if expected is None:
            return
        operands = {"g": figures["draft_length"], "c": figures["cost_ratio"]}
        if rate > _CERTAIN_RATE:
            yield fill_formula("speed_up_all", None, expected, **operands)
        else:
            yield fill_formula("speed_up", None, expected, a=rate, **operands)

    def _acceptance_formula(self, token: DraftToken) -> FormulaLine | None:
        """Return the formula for a drafted token that was judged by its random number u."""
        form, operands = "accept", {"p": token.p, "q": token.q or 0.0, "u": token.u}
        if self.rounds.weight is not None:
            form, operands = "accept_mixture", {**operands, "w": self.rounds.weight}
        kept = token.status == "accepted"
        line = fill_formula(form, token.token_id, kept=int(kept), **operands)
        if line is None:
            return None
        shown = {name: text for name, text in line["with"].items() if name not in ("u", "kept")}
        return {**line, "with": shown, "u": line["with"]["u"], "kept": kept}

    def _match_formula(self, last: DraftToken, detail: DraftDetail) -> FormulaLine | None:
        """Return the formula for a drafted token that was judged without a random number u."""
        if self.config.get("do_sample"):
            return formula_without_numbers("match_drawn", last.token_id)
        if self.rounds.weight is not None and last.q is not None:
            return formula_without_numbers("match_mixture", last.token_id)
        top = detail.residual[0] if detail.residual else None
        if last.status == "accepted" or top is None or top[0] != detail.final_token_id:
            return formula_without_numbers("match", last.token_id)
        return fill_formula("match", last.token_id, p=last.p, b=top[1])


def _model_softmax(step: Step, own: Candidate) -> FormulaLine | None:
    """Return the softmax over the model's logits before any processor."""
    if own.raw_logprob == -math.inf or step.logsumexp is None:
        return None
    p, total = math.exp(own.raw_logprob), processor_formulas.safe_exp(step.logsumexp)
    if total is None:
        return None
    return fill_formula("softmax", own.token_id, p, z=own.raw_logprob + step.logsumexp, s=total)


def _surprise(own: Candidate) -> FormulaLine | None:
    p = math.exp(own.raw_logprob)
    return fill_formula("surprise", own.token_id, -own.raw_logprob / math.log(2), p=p)


def _served_surprise(step: Step) -> FormulaLine | None:
    """Return the one formula that a server's answer has numbers for, if it has them."""
    own = next((c for c in step.candidates if c.token_id == chosen_token_id(step)), None)
    if own is None or own.raw_logprob == -math.inf or not has_own_probability(step):
        return None
    return _surprise(own)


def _dola_formulas(detail: LayerDetail, token: int) -> Iterator[FormulaLine | None]:
    """Yield DoLa's formulas: choice of the layer, mask and contrast."""
    readings = {reading.layer: reading for reading in detail.layers}
    known = [readings[layer] for layer in detail.candidate_layers if layer in readings]
    far = {r.layer: r.divergence for r in known if r.divergence is not None}
    line = fill_formula("farthest", None, d=list(far.values()))
    yield line and {
        **line,
        "layers": list(far),
        "layer": detail.premature_layer,
    }
    if detail.final_top:
        yield fill_formula(
            "mask", detail.final_top[0][0], a=_RELATIVE_TOP, p=detail.final_top[0][1]
        )
    early = readings.get(detail.premature_layer)
    if early is None or not detail.layers:
        return
    last = detail.layers[-1]
    recorded = dict(detail.contrast_top).get(token)
    line = fill_formula("log_ratio", token, recorded, n=last.logprob, m=early.logprob)
    yield line and {**line, "layer": detail.premature_layer, "last": last.layer}


VISUALS = (Visual("formula", FormulaSummary, is_decided_here, order=80),)
