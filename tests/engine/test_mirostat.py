"""Mirostat keeps what llama.cpp's second version keeps, and its cap follows the drawn tokens."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
import torch
from transformers import LogitsProcessorList, TemperatureLogitsWarper

from engine import DecodeRequest
from engine.analysis.dial_map.build import map_dial
from engine.analysis.many_draws import draw_many
from engine.errors import EngineError, ParameterError
from engine.inspection.rerun import replay_to_step
from engine.inspection.what_if import SettingsChange, apply_change
from engine.inspection.why import explain_token
from engine.processors.mirostat import MirostatLogitsWarper
from tests.helpers.asking import kept
from tests.helpers.models import golden_model, native
from tests.helpers.runs import finished
from tests.helpers.strategies import PROMPT, make, trace_of

ON = {"mirostat_tau": 2.0, "mirostat_eta": 0.5, "top_k": 0}


def ids_of(*rows):
    return torch.tensor([list(row) for row in rows])


def left_in(scores):
    return [row.isfinite().nonzero()[:, 0].tolist() for row in scores]


def test_it_keeps_and_moves_what_was_computed_by_hand():
    """Surprise of 1/2, 1/4, 1/8 and 1/8 is 1, 2, 3 and 3 bits; the cap begins at 2 tau = 2.4."""
    scores = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    warper = MirostatLogitsWarper(1.2, 0.5)
    assert left_in(warper(ids_of([7]), scores)) == [[0, 1]]
    assert float(warper.stage_state[0]) == pytest.approx(2.4)
    # Renormalised, 1/4 of 3/4 surprises by log2 3 = 1.585: the cap falls by half of .385.
    assert left_in(warper(ids_of([7, 1]), scores)) == [[0, 1]]
    assert float(warper.stage_state[0]) == pytest.approx(2.4 - 0.5 * (math.log2(3) - 1.2), abs=1e-5)
    # 2/3 surprises by .585: the cap rises by half of .615.
    warper(ids_of([7, 1, 0]), scores)
    expected = 2.4 - 0.5 * (math.log2(3) - 1.2) - 0.5 * (math.log2(1.5) - 1.2)
    assert float(warper.stage_state[0]) == pytest.approx(expected, abs=1e-5)


def test_the_best_token_stays_under_any_cap_and_the_same_pass_moves_nothing():
    scores = torch.zeros(1, 8)
    scores[0, 3] = 0.1
    warper = MirostatLogitsWarper(0.5)
    first = warper(ids_of([7]), scores)
    assert left_in(first) == [[3]]
    assert torch.equal(warper(ids_of([7]), scores), first)
    assert float(warper.stage_state[0]) == 1.0


class RowOfMirostat:
    """One row, as in llama.cpp: sort, cut off above mu, normalise, draw, move mu."""

    def __init__(self, tau, eta):
        self.tau, self.eta, self.mu = tau, eta, 2 * tau

    def keep(self, scores):
        best = max(scores)
        total = sum(math.exp(score - best) for score in scores)
        p = {i: math.exp(score - best) / total for i, score in enumerate(scores)}
        order = sorted((i for i in p if p[i] > 0), key=lambda i: -p[i])
        self.kept = [i for i in order if -math.log2(p[i]) <= self.mu] or order[:1]
        self.p = {i: p[i] / sum(p[j] for j in self.kept) for i in self.kept}
        return sorted(self.kept)

    def accept(self, token):
        self.mu -= self.eta * (-math.log2(self.p[token]) - self.tau)


@pytest.mark.parametrize("seed", range(8))
def test_it_equals_a_second_implementation_on_random_texts(seed):
    chance = random.Random(seed)
    tau, eta = chance.uniform(0.5, 4), chance.uniform(0, 1)
    warper, rows = MirostatLogitsWarper(tau, eta), [RowOfMirostat(tau, eta) for _ in range(3)]
    texts = [[1], [2], [3]]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(20):
        scores = torch.randn(3, 40, generator=generator, dtype=torch.float64) * 2
        scores[:, ::9] = -torch.inf
        left = left_in(warper(ids_of(*texts), scores))
        for row, text, scored, found in zip(rows, texts, scores.tolist(), left, strict=True):
            assert row.keep(scored) == found
            token = chance.choice(found)
            row.accept(token)
            text.append(token)


def test_a_run_draws_the_tokens_of_plain_generate():
    loaded = golden_model("llama")
    params = {"temperature": 1.5, "max_new_tokens": 12, **ON, "num_return_sequences": 2}
    trace = finished(DecodeRequest("sampling", loaded, input_ids=PROMPT, params=params, seed=5))
    mode = {"do_sample": True, "top_k": 0, "max_new_tokens": 12, "num_return_sequences": 2}
    samplers = LogitsProcessorList([TemperatureLogitsWarper(1.5), MirostatLogitsWarper(2.0, 0.5)])
    expected = native(loaded, PROMPT, seed=5, **mode, logits_processor=samplers)
    assert [list(output.token_ids) for output in trace.outputs] == expected


@pytest.mark.parametrize(
    ("strategy", "params"),
    [("sampling", {"num_return_sequences": 3}), ("watermark", {}), ("dola", {"do_sample": True})],
)
def test_every_cap_follows_from_the_record_of_the_token_before(strategy, params):
    trace = trace_of(strategy, **ON, **params)
    for sequence in {step.sequence for step in trace.steps}:
        steps = [step for step in trace.steps if step.sequence == sequence]
        stages = [next(s for s in step.stages if s.name == "Mirostat") for step in steps]
        assert stages[0].state == 4.0
        if strategy == "watermark":  # its bias comes after the filter
            assert len({stage.state for stage in stages}) > 1
            continue
        for (step, stage), (_, after) in pairwise(zip(steps, stages, strict=True)):
            own = next(c for c in step.candidates if c.token_id == step.emit[0])
            surprise = -own.processed_logprob / math.log(2)
            assert after.state == pytest.approx(stage.state - 0.5 * (surprise - 2.0), abs=1e-4)


def test_many_draws_are_single_runs():
    [batch] = draw_many(make("sampling", seed=3, **ON), 3)
    for draw in batch.draws:
        assert (
            draw.token_ids == finished(make("sampling", seed=draw.seed, **ON)).outputs[0].token_ids
        )


@pytest.mark.parametrize(
    ("strategy", "params"),
    [("beam_sampling", {"num_beams": 3}), ("speculative", {"do_sample": True})],
)
def test_it_is_refused_where_tokens_are_not_drawn_one_by_one(strategy, params):
    with pytest.raises(ParameterError, match=r"mirostat_tau = 2.0 is not allowed: .*; sampling"):
        finished(make(strategy, **params, mirostat_tau=2.0))


def test_two_filters_that_steer_are_refused():
    with pytest.raises(ParameterError, match="one of the two must be off"):
        finished(make("sampling", mirostat_tau=2.0, adaptive_target=0.3))


def test_maps_and_what_if_say_why_they_cannot_follow_it():
    with pytest.raises(ParameterError, match="a dial map has no Mirostat"):
        next(map_dial(make("sampling", **ON), "temperature", 0.5, 1.5))
    for params, change in (({}, {"mirostat_tau": 3.0}), (ON, {"temperature": 1.5})):
        run = kept(make("sampling", **params))
        with pytest.raises(EngineError, match="cap follows from the tokens that were drawn before"):
            apply_change(run, SettingsChange(change))


def test_why_says_by_how_many_bits_a_token_missed_the_cap():
    trace = trace_of("sampling", **{**ON, "mirostat_tau": 1.0})
    for index in (0, 3):
        place = replay_to_step(trace, index, golden_model("llama"), None)
        [warper] = [p for p in place.views[0].processors if isinstance(p, MirostatLogitsWarper)]
        step = trace.steps[index]
        assert float(warper.next_cap(place.views[0].input_ids, place.views[0].logits)[0, 0]) == (
            pytest.approx(step.stages[-1].state, abs=1e-5)
        )
        removed = next(c for c in step.candidates if c.removed_by == "Mirostat")
        answer = explain_token(place, removed.token_id)
        assert "bits, and the cap is at" in answer.sentence
        assert "Above Mirostat's cap" in {fact.name for fact in answer.facts}
        # At the first draw a larger tau would have kept it.
        assert (answer.claim.changes["mirostat_tau"] is not None) == (index == 0)
