"""Summary of a step's formulas, filled in with its recorded numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from engine.statistics.watermark_statistics import Z_THRESHOLD, Count
from engine.trace.details import (
    BeamDetail,
    ContrastiveDetail,
    DraftDetail,
    DraftToken,
    ForwardDetail,
    LayerDetail,
    WatermarkDetail,
    draw_of,
)
from engine.trace.records import Candidate, Step, Trace, own_token
from visualizers.base import Shown
from visualizers.draft_timeline.summary import Rounds
from visualizers.formula import beam_formulas, processor_formulas
from visualizers.formula.forms import bare, filled, setting
from visualizers.watermark.summary import hits_of

Line = dict[str, Any]
_OTHERWISE = (ContrastiveDetail, LayerDetail, ForwardDetail)
"""Details of steps that do not choose the most probable token, or whose choice is unknown."""
_RELATIVE_TOP = 0.1
"""DoLa's mask: smallest probability relative to the top token's."""
_SURE = 0.9999
_DRAFTED = 6
"""Number of drafted tokens whose acceptance is shown as a formula."""


class Formulas:
    """Fills in the formulas of each step.

    Values per step: ``lines``, each with ``form``, ``of`` (token id), ``with`` (operands as texts)
    and ``is`` (result as text); see ``forms.filled``. A line without operands has no numbers.
    """

    def __init__(self, run: Trace) -> None:
        self.config = run.config
        self.rounds = Rounds(run)
        self.counts: dict[int, Count] = {}
        self.texts: dict[int, list[int]] = {}
        self.prompt = [] if run.model.is_encoder_decoder else list(run.prompt_ids)
        self.sums: dict[int, float] = {}

    def add(self, step: Step) -> Shown:
        """Add a step and return its formulas."""
        text = self.texts.setdefault(step.sequence, [])
        before = [*self.prompt, *text[: step.keep]]
        lines = [line for line in self._lines(step, before) if line is not None]
        text[step.keep :] = step.emit
        return {"lines": lines}

    def _lines(self, step: Step, before: Sequence[int]) -> Iterator[Line | None]:
        detail = step.detail
        if isinstance(detail, BeamDetail):
            yield from beam_formulas.lines(detail, self.config, self.sums, step.index)
        elif isinstance(detail, DraftDetail):
            yield from self._drafted(step, detail)
        else:
            yield from self._one(step, before)

    def _one(self, step: Step, before: Sequence[int]) -> Iterator[Line | None]:
        """Yield the formulas of a step that decided one token."""
        if not step.emit:
            return
        detail, token = step.detail, own_token(step)
        assert token is not None
        own = next((c for c in step.candidates if c.token_id == token), None)
        if own is not None:
            yield _of_the_model(step, own)
            if isinstance(detail, LayerDetail):
                yield from _contrasted(detail, token)
            elif not isinstance(detail, ForwardDetail):
                yield from processor_formulas.lines(step, own, self.config, before)
        if isinstance(detail, ContrastiveDetail):
            yield from self._weighed(detail)
        draw = draw_of(detail)
        if draw is not None:
            first = draw.racers[0]
            yield filled("race", token, first.arrival, e=first.noise, p=first.probability)
        elif not isinstance(detail, _OTHERWISE) and own is not None:
            yield bare("argmax", token)
        if isinstance(detail, WatermarkDetail):
            yield from self._marked(step, detail)
        if own is not None and own.raw_logprob > -math.inf:
            p = math.exp(own.raw_logprob)
            yield filled("surprise", token, -own.raw_logprob / math.log(2), p=p)

    def _weighed(self, detail: ContrastiveDetail) -> Iterator[Line | None]:
        alpha = setting(self.config, "penalty_alpha", 0.0)
        for place in dict.fromkeys((detail.chosen, 0)):
            o = detail.options[place]
            yield filled(
                "contrastive", o.token_id, o.score, a=alpha, p=o.probability, s=o.max_cosine
            )

    def _marked(self, step: Step, detail: WatermarkDetail) -> Iterator[Line | None]:
        hits, flips = hits_of(detail), max(1, len(detail.g_values))
        if detail.g_values:
            yield bare("tournament")
            yield filled("ones", step.emit[-1], h=hits, n=flips)
        count = self.counts.setdefault(step.sequence, Count(flips, detail.expected, detail.chance))
        count.add(scored=detail.scored, fresh=detail.fresh, hits=hits)
        found = count.verdict(setting(self.config, "z_threshold", Z_THRESHOLD))
        if found is None:
            return
        yield filled("z", None, found.z_score, h=found.hits, n=found.trials, g=detail.expected)
        yield filled(
            "tail",
            None,
            found.p_value,
            h=found.distinct_hits,
            n=found.distinct_trials,
            g=detail.chance,
        )

    def _drafted(self, step: Step, detail: DraftDetail) -> Iterator[Line | None]:
        weight = self.rounds.weight
        judged = [token for token in detail.tokens if token.status != "unverified"]
        drawn = [token for token in judged if token.u is not None and token.q]
        # The last ones are shown, as they decided where the draft ended.
        for token in drawn[-_DRAFTED:]:
            form, operands = "accept", {"p": token.p, "q": token.q or 0.0}
            if weight is not None:
                form, operands = "accept_mixture", {**operands, "w": weight}
            line = filled(form, token.token_id, **operands)
            yield line and {**line, "u": f"{token.u:.3f}", "kept": token.status == "accepted"}
        if judged and not drawn:
            yield self._matched(judged[-1], detail)
        if detail.final_source == "resampled" and drawn and weight is None:
            last = drawn[-1]
            yield filled("residual", last.token_id, p=last.p, q=last.q or 0.0)
        shown = self.rounds.add(step)
        if shown is None:
            return
        figures = shown["figures"]
        rate, expected = figures["acceptance_rate"] or 0.0, figures["expected_speed_up"]
        if expected is None:
            return
        operands = {"g": figures["draft_length"], "c": figures["cost_ratio"]}
        if rate > _SURE:
            yield filled("speed_up_all", None, expected, **operands)
        else:
            yield filled("speed_up", None, expected, a=rate, **operands)

    def _matched(self, last: DraftToken, detail: DraftDetail) -> Line | None:
        """Return the formula for a drafted token that was judged without a random number u."""
        if self.config.get("do_sample"):
            return bare("match_drawn", last.token_id)
        if self.rounds.weight is not None and last.q is not None:
            return bare("match_mixture", last.token_id)
        top = detail.residual[0] if detail.residual else None
        if last.status == "accepted" or top is None or top[0] != detail.final_token_id:
            return bare("match", last.token_id)
        return filled("match", last.token_id, p=last.p, b=top[1])


def _of_the_model(step: Step, own: Candidate) -> Line | None:
    """Return the softmax over the model's logits before any processor."""
    if own.raw_logprob == -math.inf:
        return None
    p, total = math.exp(own.raw_logprob), processor_formulas.power(step.logsumexp)
    if total is None:
        return None
    return filled("softmax", own.token_id, p, z=own.raw_logprob + step.logsumexp, s=total)


def _contrasted(detail: LayerDetail, token: int) -> Iterator[Line | None]:
    """Yield DoLa's formulas: choice of the layer, mask and contrast."""
    readings = {reading.layer: reading for reading in detail.layers}
    known = [readings[layer] for layer in detail.candidate_layers if layer in readings]
    far = {r.layer: r.divergence for r in known if r.divergence is not None}
    line = filled("farthest", None, d=list(far.values()))
    yield line and {
        **line,
        "layers": list(far),
        "layer": detail.premature_layer,
    }
    if detail.final_top:
        yield filled("mask", detail.final_top[0][0], a=_RELATIVE_TOP, p=detail.final_top[0][1])
    early = readings.get(detail.premature_layer)
    if early is None or not detail.layers:
        return
    last = detail.layers[-1]
    recorded = dict(detail.contrast_top).get(token)
    line = filled("log_ratio", token, recorded, n=last.logprob, m=early.logprob)
    yield line and {**line, "layer": detail.premature_layer, "last": last.layer}
