"""Every form of the page offers parameters as their strategies declare them; no bound is written twice."""

from __future__ import annotations

import dataclasses
import json
from urllib.parse import urlencode

import pytest

from engine import STRATEGIES, DecodeRequest
from engine.analysis.many_draws import MAX_DRAWS, MAX_TOKENS
from engine.declare.groups import GROUPS
from engine.declare.params import Integer, Number, defaults_of, params_of
from engine.declare.weights import weights_params
from engine.errors import ParameterError
from engine.export.generation_config import format_config
from engine.models import weights as holding
from engine.strategies.watermark import WatermarkConfig
from engine.watermark.schemes import GreenList, SynthId
from playground.forms import controls, links
from playground.forms.form import form_request
from playground.forms.spec import control_values, page_spec, param_spec
from playground.tabs import draws, watermark_bench
from playground.tabs.compare import read_requests

SPEC = json.loads(json.dumps(page_spec(), allow_nan=False))
FORMS = {s["name"]: s for s in SPEC["strategies"]}


def controls_of(name):
    """Return the controls of a strategy's form by name."""
    return {c["name"]: c for c in (SPEC["params"][place] for place in FORMS[name]["params"])}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_parameter_has_its_control_in_a_group_that_is_drawn(name):
    drafted = STRATEGIES[name].assistant != "none"
    kinds, offered = params_of(STRATEGIES[name].config), controls_of(name)
    kinds |= weights_params(drafted)
    assert list(offered) == list(kinds)
    # The prompt's own are a choice at the prompt.
    drawn = {SPEC["main"], *SPEC["groups"], "prompt"}
    assert set(GROUPS) == drawn
    assert {control["group"] for control in offered.values()} <= drawn


def test_a_public_deployment_shows_the_weights_that_it_offers_and_a_link_no_others(monkeypatch):
    def offer(words):
        settings = dataclasses.replace(holding.SETTINGS, public=True, public_weights=words)
        monkeypatch.setattr(holding, "SETTINGS", settings)
        declared = page_spec()
        kinds = {p["name"]: p for p in (*declared["params"], *declared["weights"]["params"])}
        return {n: kinds[n]["choices"] for n in weights_params(assistant=True) if n in kinds}

    assert offer(holding.default_dtype("cpu")) == {}
    assert [p["name"] for p in draws.declaration()["params"]][-1] == "top_p"
    found = offer("4bit")
    assert found == {n: ["", "4bit"] for n in ("quantization", "assistant_quantization")}
    linked = {"strategy": "greedy", "prompt": "a", "params": json.dumps({"dtype": "float16"})}
    with pytest.raises(ParameterError, match="dtype = 'float16' is not allowed: this deployment"):
        links.request_from_link(linked)
    columns = [{"strategy": "greedy", "params": {"quantization": "8bit"}}] * 2
    form = {"prompt": "a", "columns": columns}
    for given in (
        form,
        {**form, "columns": [{"strategy": "greedy"}], "base_weights": {"dtype": "float16"}},
    ):
        with pytest.raises(ParameterError, match="this deployment offers 4bit"):
            links.open_link("?" + urlencode({"tab": "compare", "form": json.dumps(given)}))


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_comes_back_untouched_is_the_default(name):
    values = {n: c["value"] for n, c in controls_of(name).items()}
    asked = {"strategy": name, "prompt": "a", "seed": 0, "params": values}
    assert form_request(asked).params == {}
    # The page sends an empty field as no text at all.
    empty = {n: "" if v is None else v for n, v in values.items()}
    column = {"strategy": name, "params": empty}
    (request, _) = read_requests({"prompt": "a", "seed": 0, "columns": [column, column]})
    assert dict(request.params) == {}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_preset_comes_back_as_it_was_declared(name):
    strategy = STRATEGIES[name]
    kinds = params_of(strategy.config)
    # Conversations, pictures and sounds stand behind them where their model is on this machine.
    own = [preset for preset in FORMS[name]["presets"] if "messages" not in preset]
    told = [preset for preset in own if not (preset["image"] or preset["audio"])]
    for preset, sent in zip(strategy.presets, told, strict=True):
        request = form_request(
            {
                "strategy": name,
                "prompt": sent["prompt"],
                "model": sent["model"],
                "seed": sent["seed"],
                "params": {**control_values(strategy, {}), **sent["params"]},
            }
        )
        wanted = {**defaults_of(strategy.config), **preset.params}
        got = {**defaults_of(strategy.config), **request.params}
        assert {n: k.check(n, got[n]) for n, k in kinds.items()} == {
            n: k.check(n, wanted[n]) for n, k in kinds.items()
        }
        assert (request.prompt, request.seed) == (preset.prompt, preset.seed)


@pytest.mark.parametrize("name", STRATEGIES)
def test_both_ends_of_a_slider_are_legal(name):
    for parameter, kind in params_of(STRATEGIES[name].config).items():
        ends = controls_of(name)[parameter].get("slider")
        for end in ends or ():
            kind.check(parameter, controls.from_control(parameter, kind, end))
        if isinstance(kind, (Number, Integer)) and not kind.optional:
            first = controls_of(name)[parameter]["value"]
            assert ends is None or ends[0] <= first <= ends[1]


@pytest.mark.parametrize(
    ("sent", "read"),
    [(3.0, 3), ("9223372036854775807", 2**63 - 1), ("x", "x"), ("", None), (2.5, 2.5), ("²", "²")],
)
def test_a_seed_is_read_exactly(sent, read):
    request = form_request({"strategy": "greedy", "prompt": "a", "seed": sent})
    assert request.seed == (sent if read is None else read)


def test_a_form_of_no_strategy_is_refused():
    for name in (None, "nope", [], {}, 5):
        with pytest.raises(ParameterError, match="strategy"):
            form_request({"strategy": name})


def offered_by(declaration):
    return {control["name"]: control for control in declaration["params"]}


@pytest.mark.parametrize("name", ["max_new_tokens", *watermark_bench._MARK_PARAMS])
def test_the_bench_begins_as_the_first_preset_does(name):
    first = STRATEGIES["watermark"].presets[0]
    default = {**defaults_of(WatermarkConfig), **first.params}[name]
    wanted = param_spec(name, params_of(WatermarkConfig)[name], default)
    offered = offered_by(watermark_bench.declaration())[name]
    assert {**offered, "group": wanted["group"]} == wanted


@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p"])
def test_many_draws_offers_what_sampling_declares(name):
    config = STRATEGIES["sampling"].config
    wanted = param_spec(name, params_of(config)[name], defaults_of(config)[name])
    assert offered_by(draws.declaration())[name] == wanted


def test_many_draws_are_short():
    kind = params_of(STRATEGIES["sampling"].config)["max_new_tokens"]
    short = dataclasses.replace(kind, maximum=MAX_TOKENS, slider_maximum=None)
    offered = offered_by(draws.declaration())
    assert offered["max_new_tokens"] == param_spec("max_new_tokens", short, 6)
    assert offered["draws"]["slider"] == (2, MAX_DRAWS)


def test_a_scheme_by_itself_is_the_declared_one():
    defaults = defaults_of(WatermarkConfig)
    for kind in (GreenList, SynthId):
        for field in dataclasses.fields(kind):
            assert defaults[field.name] == field.default, field.name


def test_a_written_config_has_the_declared_mark():
    assert f'"bias": {GreenList.bias}' in format_config("watermark", {})


def test_a_request_of_a_form_is_a_request():
    asked = {"strategy": "sampling", "prompt": "a", "seed": 1, "params": {"temperature": 0.5}}
    assert form_request(asked) == DecodeRequest(
        "sampling", "storyteller", "a", params={"temperature": 0.5}, seed=1
    )
