"""What docs/combinations.md does not list works together."""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations

import pytest

from engine import DecodeRequest
from engine.cli.combination_page import SETTINGS, find_refusal, params_with
from engine.errors import DecodeError
from engine.strategies import STRATEGIES
from tests.helpers.runs import finished
from tests.helpers.strategies import NEXT_TOKEN

DRAFTS = {"universal_assisted": "foreign-draft", "speculative": "storyteller-draft"}
REQUIREMENTS = {"structured_outputs", "prefix_allowed_tokens_fn", "force_words_ids"}
"""With the values of the tables, few texts meet two of them, and a run says so."""


def ask(strategy, *names):
    params = {"max_new_tokens": 3, **params_with(strategy, *names)}
    assistant = DRAFTS.get(strategy)
    return DecodeRequest(
        strategy, prompt="A fox. <think>", params=params, assistant=assistant, seed=1
    )


def pairs_of(strategy):
    allowed = [name for name in SETTINGS if not find_refusal(strategy, name)]
    return [pair for pair in combinations(allowed, 2) if not find_refusal(strategy, *pair)]


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["sampling", "beam_search"])
def test_two_settings_that_no_table_lists_make_a_run(strategy):
    pairs = pairs_of(strategy)
    assert len(pairs) > 20
    for pair in pairs:
        with suppress(*([DecodeError] if REQUIREMENTS.issuperset(pair) else [])):
            assert finished(ask(strategy, *pair)).outputs


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", NEXT_TOKEN)
def test_every_setting_that_no_table_lists_makes_a_run(strategy):
    for name in SETTINGS:
        if not find_refusal(strategy, name):
            assert finished(ask(strategy, name)).outputs


def test_a_strategy_without_a_parameter_refuses_it():
    assert "no such parameter" in find_refusal("greedy", "force_words_ids")
    assert not find_refusal("beam_search", "force_words_ids")
    assert {*STRATEGIES} > {*NEXT_TOKEN}
