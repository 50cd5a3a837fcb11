"""Bench and many draws offer parameters as their strategies declare them; no bound is written twice."""

from __future__ import annotations

import dataclasses

import pytest

from engine import STRATEGIES
from engine.after.many_draws import MAX_TOKENS
from engine.declare.params import defaults_of, params_of
from engine.export.generation_config import write
from engine.strategies.watermark import WatermarkConfig
from engine.watermark.schemes import GreenList, SynthId
from playground import controls, draws, watermark_bench
from tests.helpers.blocks import built

SHOWN = ("value", "minimum", "maximum", "step", "label", "choices")


def about(control):
    return {name: getattr(control, name) for name in SHOWN if hasattr(control, name)}


def declared(strategy, name, default, **changes):
    kind = dataclasses.replace(params_of(STRATEGIES[strategy].config)[name], **changes)
    return about(built(lambda: controls.widget(name, kind, default)))


def by_element():
    return {control.elem_id: control for control in built(draws._settings)}


@pytest.mark.parametrize("name", ["max_new_tokens", *watermark_bench._MARK])
def test_the_bench_begins_as_the_first_preset_does(name):
    first = STRATEGIES["watermark"].presets[0]
    default = {**defaults_of(WatermarkConfig), **first.params}[name]
    offered = built(watermark_bench._settings)[name]
    assert about(offered) == declared("watermark", name, default)


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p"])
def test_many_draws_offers_what_sampling_declares(name):
    offered = by_element()[draws._OFFERED[name]]
    default = defaults_of(STRATEGIES["sampling"].config)[name]
    assert about(offered) == declared("sampling", name, default)


def test_many_draws_are_short():
    offered = by_element()["draws-new"]
    short = {"maximum": MAX_TOKENS, "slider_maximum": None}
    assert about(offered) == declared("sampling", "max_new_tokens", 6, **short)


def test_a_scheme_by_itself_is_the_declared_one():
    defaults = defaults_of(WatermarkConfig)
    for kind in (GreenList, SynthId):
        for field in dataclasses.fields(kind):
            assert defaults[field.name] == field.default, field.name


def test_a_written_config_has_the_declared_mark():
    assert f'"bias": {GreenList.bias}' in write("watermark", {})
