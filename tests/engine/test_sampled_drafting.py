"""Every drafter leaves the target's distribution as it is: the whole loop, drawn from many times."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from transformers import TemperatureLogitsWarper, TopKLogitsWarper

from engine.loops.drafting import assisted, lossless_check, tree_loop
from engine.loops.drafting.assistant import AssistantDrafter, EarlyExitDrafter
from engine.loops.drafting.draft_tree import TreeShape
from engine.loops.drafting.drafter import RunContext
from engine.loops.drafting.mtp import MtpDrafter
from engine.loops.drafting.named_drafters import ModelWithTokenizer
from engine.loops.drafting.prompt_lookup import PromptLookupDrafter
from engine.loops.drafting.tree_drafter import TreeDrafter
from engine.loops.drafting.universal import IntersectionDrafter
from tests.helpers.chains import Alphabet, Chain, ChainHeads, LayeredChain, Quick, p_of_steps

VOCAB = 8
FEW, MANY = 3_000, 6_000
LENGTH = 50
"""Draws of one run; every run begins anew."""
SCALE = 0.7
DRAFTERS = ("speculative", "draft_tree", "universal_assisted", "early_exit", "prompt_lookup", "mtp")
SETTINGS = {
    "plain": {"assistant_confidence_threshold": 0.0},
    "unsure": {"assistant_confidence_threshold": 0.3, "num_assistant_tokens_schedule": "heuristic"},
    "warped": {"assistant_confidence_threshold": 0.0},
}
WARPERS = {"warped": [TemperatureLogitsWarper(0.8), TopKLogitsWarper(6)]}


def context_of(drafter: str, settings: str) -> tuple[RunContext, Any]:
    """Return the run of a target with fixed tables, and what makes its drafter."""
    generator = torch.Generator().manual_seed(3)
    first, second, third = SCALE * torch.randn((3, VOCAB, VOCAB), generator=generator)
    values = {"num_assistant_tokens": 3, "num_assistant_tokens_schedule": "constant"}
    config = transformers.GenerationConfig(
        do_sample=True,
        max_length=LENGTH + 8,
        assistant_early_exit=1,
        prompt_lookup_num_tokens=3,
        **values | SETTINGS[settings],
    )
    config._eos_token_tensor = None
    layered = drafter == "early_exit"
    target = LayeredChain([first, second]) if layered else Chain(first + second)
    prompt = torch.tensor([[4, 1, 4]])
    context = RunContext(target, prompt, WARPERS.get(settings, []), config, torch.Generator())
    speaker = ModelWithTokenizer(target, Alphabet("abcdefgh"))
    other = ModelWithTokenizer(Chain(third), Alphabet("hgfexyzw"))
    make = {
        "speculative": lambda run: AssistantDrafter(run, Chain(first + third)),
        "draft_tree": lambda run: TreeDrafter(run, Chain(first + third), TreeShape(3, 3, 7)),
        "universal_assisted": lambda run: IntersectionDrafter(run, speaker, other),
        "early_exit": EarlyExitDrafter,
        "prompt_lookup": PromptLookupDrafter,
        "mtp": lambda run: MtpDrafter(run, ChainHeads(first + third, 3)),
    }
    return context, make[drafter]


def p_of(drafter: str, settings: str, draws: int) -> float:
    """Return the chance of what was drawn, or of something further off, if nothing is wrong."""
    context, make = context_of(drafter, settings)
    generator = torch.Generator().manual_seed(12)
    start, kept = context.input_ids[0, -1:].tolist(), {"use_cache": False}
    texts = [
        [*start, *lossless_check.sample_short_run(context, kept, make, generator, LENGTH)]
        for _ in range(draws // LENGTH)
    ]
    assert sum(map(len, texts)) - len(texts) == draws
    last = torch.arange(VOCAB)[:, None]
    table = context.model(last).logits[:, 0]
    for processor in context.processors:
        table = processor(last, table)
    return p_of_steps(texts, table.softmax(-1))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(lossless_check, "Recorder", lambda top: Quick())


# Every drafter is verified in the same way, so one of them is enough by day.
@pytest.mark.by_day("speculative-plain", "speculative-warped")
@pytest.mark.parametrize(
    ("drafter", "settings"),
    [
        *((drafter, "plain") for drafter in DRAFTERS),
        ("speculative", "unsure"),
        ("speculative", "warped"),
    ],
)
def test_drawn_texts_have_the_targets_distribution(drafter, settings):
    assert p_of(drafter, settings, FEW) > 0.001


@pytest.mark.nightly
@pytest.mark.parametrize("settings", list(SETTINGS))
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_many_drawn_texts_have_the_targets_distribution(drafter, settings):
    assert p_of(drafter, settings, MANY) > 0.001


@pytest.mark.nightly
@pytest.mark.parametrize("drafter", ["speculative", "universal_assisted", "early_exit", "mtp"])
def test_a_residual_that_is_left_out_is_caught_by_the_few(drafter, monkeypatch):
    monkeypatch.setattr(assisted, "residual_distribution", lambda p, q: p)
    assert p_of(drafter, "plain", FEW) < 1e-6


@pytest.mark.nightly
def test_drafts_that_are_always_believed_are_caught_by_the_few(monkeypatch):
    right = assisted.draw_tokens

    def believing(scores, generator):
        tokens, extra = right(scores, generator)
        if len(scores) > 1:
            tokens[0] = 4
        return tokens, extra

    monkeypatch.setattr(assisted, "draw_tokens", believing)
    assert p_of("prompt_lookup", "plain", FEW) < 1e-6


@pytest.mark.nightly
def test_a_guess_that_is_always_followed_is_caught_by_the_few(monkeypatch):
    monkeypatch.setattr(tree_loop, "draw_tokens", lambda scores, generator: (scores.argmax(-1), {}))
    assert p_of("draft_tree", "plain", FEW) < 1e-6
