"""Adaptive-p scores tokens as llama.cpp does, and its target follows the drawn tokens."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
import torch
from transformers import LogitsProcessorList, MinPLogitsWarper

from engine import DecodeRequest
from engine.analysis.dial_map.build import map_dial
from engine.analysis.many_draws import draw_many
from engine.errors import EngineError, ParameterError
from engine.inspection.what_if import SettingsChange, apply_change
from engine.processors.adaptive_p import AdaptivePLogitsWarper
from tests.helpers.asking import kept
from tests.helpers.models import golden_model, native
from tests.helpers.runs import finished
from tests.helpers.strategies import PROMPT, make, trace_of

ON = {"adaptive_target": 0.2, "adaptive_decay": 0.5, "top_k": 0, "min_p": 0.1}


def test_it_scores_what_was_computed_by_hand():
    """Target .4, memory .5: the sum begins at .8 of weight 2, so the first target is .4."""
    scores = torch.tensor([[0.5, 0.4, 0.1, 0.0]]).log()
    warper = AdaptivePLogitsWarper(0.4, 0.5)
    left = warper(torch.tensor([[7]]), scores)[0].tolist()
    # Distances of 1/3, 0 and 1: 5 − 10 · (1/9) / (4/3) = 4.1667, 5 and 5 − 10 / 2 = 0.
    assert left[:3] == pytest.approx([5 - 10 / 12, 5, 0], abs=1e-5)
    assert left[3] == -math.inf
    # The token of .1 was drawn: (.1 + .4) of weight 2 is .25, so the next target is .8 − .25.
    warper(torch.tensor([[7, 2]]), scores)
    assert float(warper.stage_state[0]) == pytest.approx(0.55, abs=1e-6)
    # The same pass again changes nothing.
    warper(torch.tensor([[7, 2]]), scores)
    assert float(warper.stage_state[0]) == pytest.approx(0.55, abs=1e-6)


class RowOfAdaptiveP:
    """One row, as in llama.cpp."""

    def __init__(self, target, decay):
        self.target, self.decay = target, decay
        self.sum, self.weight = target / (1 - decay), 1 / (1 - decay)

    def score(self, scores):
        best = max(scores)
        total = sum(math.exp(score - best) for score in scores)
        self.p = [math.exp(score - best) / total for score in scores]
        self.aim = min(max(2 * self.target - self.sum / self.weight, 0), 1)
        far = [abs((p - self.aim) * (1 / 0.3)) for p in self.p]
        return [5 - 10 * d * d / (1 + d) for d in far]

    def accept(self, token):
        self.sum = self.p[token] + self.decay * self.sum
        self.weight = 1 + self.decay * self.weight


@pytest.mark.parametrize("seed", range(8))
def test_it_equals_a_second_implementation_on_random_texts(seed):
    chance = random.Random(seed)
    target, decay = chance.uniform(0.05, 1), chance.uniform(0, 0.99)
    warper, rows = (
        AdaptivePLogitsWarper(target, decay),
        [RowOfAdaptiveP(target, decay) for _ in "abc"],
    )
    texts, generator = [[1], [2], [3]], torch.Generator().manual_seed(seed)
    for _ in range(20):
        scores = torch.randn(3, 12, generator=generator, dtype=torch.float64) * 2
        found = warper(torch.tensor(texts), scores).tolist()
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            assert found[number] == pytest.approx(row.score(scores[number].tolist()))
            token = chance.randrange(12)
            row.accept(token)
            text.append(token)


def test_a_run_draws_the_tokens_of_plain_generate_after_min_p():
    loaded = golden_model("llama")
    params = {"max_new_tokens": 12, **ON, "num_return_sequences": 2}
    trace = finished(DecodeRequest("sampling", loaded, input_ids=PROMPT, params=params, seed=5))
    mode = {"do_sample": True, "top_k": 0, "max_new_tokens": 12, "num_return_sequences": 2}
    samplers = LogitsProcessorList([MinPLogitsWarper(0.1), AdaptivePLogitsWarper(0.2, 0.5)])
    expected = native(loaded, PROMPT, seed=5, **mode, logits_processor=samplers)
    assert [list(output.token_ids) for output in trace.outputs] == expected
    assert [stage.name for stage in trace.steps[0].stages] == ["MinP", "AdaptiveP"]


def test_every_target_follows_from_the_record_of_the_tokens_before():
    trace = trace_of("sampling", **{**ON, "num_return_sequences": 2})
    for sequence in (0, 1):
        steps = [step for step in trace.steps if step.sequence == sequence]
        total, weight = 0.2 / 0.5, 1 / 0.5
        for step, after in pairwise(steps):
            own = next(c for c in step.candidates if c.token_id == step.emit[0])
            total = math.exp(own.raw_logprob) / step.stages[0].kept_mass + 0.5 * total
            weight = 1 + 0.5 * weight
            aim = min(max(0.4 - total / weight, 0), 1)
            assert after.stages[-1].state == pytest.approx(aim, abs=1e-4)


@pytest.mark.parametrize(("strategy", "params"), [("watermark", {}), ("dola", {"do_sample": True})])
def test_it_acts_in_every_strategy_that_draws_one_by_one(strategy, params):
    trace = trace_of(strategy, **ON, **params)
    stages = [next(s for s in step.stages if s.name == "AdaptiveP") for step in trace.steps]
    assert len({stage.state for stage in stages}) > 1


def test_many_draws_are_single_runs():
    [batch] = draw_many(make("sampling", seed=3, **ON), 3)
    for draw in batch.draws:
        assert (
            draw.token_ids == finished(make("sampling", seed=draw.seed, **ON)).outputs[0].token_ids
        )


def test_what_cannot_follow_it_refuses_it_in_one_sentence():
    for strategy, params in (("beam_sampling", {}), ("prompt_lookup", {"do_sample": True})):
        with pytest.raises(
            ParameterError, match=r"adaptive_target = 0.2 is not allowed: .*; sampling"
        ):
            finished(make(strategy, **params, adaptive_target=0.2))
    with pytest.raises(ParameterError, match="a dial map has no Adaptive-p"):
        next(map_dial(make("sampling", **ON), "temperature", 0.5, 1.5))
    with pytest.raises(EngineError, match="target follows from the tokens that were drawn before"):
        apply_change(kept(make("sampling")), SettingsChange({"adaptive_target": 0.3}))
