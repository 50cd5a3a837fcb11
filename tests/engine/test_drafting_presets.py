"""The drafting presets on the embedded models do what they say, in counts that no clock can change."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.strategies import STRATEGIES
from engine.trace.details import DraftDetail
from tests.helpers.runs import finished

pytestmark = pytest.mark.nightly


def outcome(strategy: str, name: str) -> tuple[float, float]:
    """Return (accepted / drafted, tokens per target pass) of a preset, its measurements left out."""
    preset = next(p for p in STRATEGIES[strategy].presets if p.name == name)
    params = {k: v for k, v in preset.params.items() if k not in {"plain_run", "distribution_runs"}}
    request = DecodeRequest(strategy, prompt=preset.prompt, params=params, seed=preset.seed)
    rounds = finished(request).steps
    assert all(isinstance(step.detail, DraftDetail) for step in rounds)
    tokens = [token for step in rounds for token in step.detail.tokens]
    kept = sum(token.status == "accepted" for token in tokens)
    return kept / len(tokens), sum(len(step.emit) for step in rounds) / len(rounds)


def test_the_draft_is_usually_right_on_a_story_and_usually_wrong_on_a_hard_prompt():
    right, fast = outcome("speculative", "A draft that is usually right")
    wrong, slow = outcome("speculative", "A hard prompt")
    assert right > 0.5 > wrong
    assert fast >= 2.5
    assert fast > 1.2 * slow


def test_copying_shines_where_the_text_repeats():
    copied, fast = outcome("prompt_lookup", "Where copying shines")
    fresh, slow = outcome("prompt_lookup", "Where there is little to copy")
    assert copied > 2 * fresh
    assert fast > 1.5 * slow


def test_a_later_exit_is_right_more_often():
    early, middle, late = (
        outcome("early_exit", f"Exit after layer {layer}")[0] for layer in (4, 8, 12)
    )
    assert early < middle < late
    assert late > 1.4 * early


@pytest.mark.parametrize("name", ["Re-encoded drafts", "The shared vocabulary"])
def test_another_tokenizer_drafts_too(name):
    kept, fast = outcome("universal_assisted", name)
    assert kept > 0.25
    assert fast > 1.5
