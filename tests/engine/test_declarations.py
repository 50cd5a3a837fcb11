"""What is declared is looked at when it is declared: nothing falls silently off the page."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import pytest

from engine import strategies
from engine.declare.groups import COLLAPSED, GROUPS, MAIN_GROUP, PROMPT_GROUP, STRATEGY_GROUPS
from engine.declare.params import Flag, Integer, params_of
from engine.declare.weights import weights_params
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy


def test_an_unknown_group_of_a_strategy_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="group of greedy = 'faser' is not one of greedy, ") as no:
        dataclasses.replace(STRATEGIES["greedy"], group="faser")
    assert str(no.value).endswith("did you mean faster.")


@pytest.mark.parametrize("kind", [Flag, Integer])
def test_an_unknown_group_is_refused_in_a_sentence(kind):
    bounds = {} if kind is Flag else {"minimum": 0, "maximum": 1}
    with pytest.raises(ValueError, match="group of 'Odd' = 'lenght' is not one of main, ") as no:
        kind(label="Odd", help="Nothing.", group="lenght", **bounds)
    assert str(no.value).endswith("did you mean length.")


def test_every_group_has_a_strategy_or_a_parameter():
    kinds = [kind for s in STRATEGIES.values() for kind in params_of(s.config).values()]
    kinds += weights_params(True).values()
    assert {s.group for s in STRATEGIES.values()} == set(STRATEGY_GROUPS)
    assert {kind.group for kind in kinds} == set(GROUPS) == {MAIN_GROUP, PROMPT_GROUP, *COLLAPSED}


def test_every_file_that_declares_a_strategy_is_in_the_registry_under_its_name():
    modules = [
        importlib.import_module(f"{strategies.__name__}.{found.name}")
        for found in pkgutil.iter_modules(strategies.__path__)
    ]
    declared = {m.__name__.rpartition(".")[2]: m for m in modules if hasattr(m, "STRATEGY")}
    assert {name: m.STRATEGY for name, m in declared.items()} == STRATEGIES
    assert all(isinstance(m.STRATEGY, Strategy) for m in declared.values())


def test_a_filter_that_a_strategy_does_not_have_is_left_out_for_the_true_reason():
    greedy = STRATEGIES["greedy"]
    said = "temperature has no effect in greedy: "
    assert greedy.describe_missing_filter("temperature") == f"{said}nothing is drawn at random."
    drawing = dataclasses.replace(greedy, generate_kwargs=lambda config: {"do_sample": True})
    assert drawing.describe_missing_filter("temperature") == f"{said}it draws in its own way."
