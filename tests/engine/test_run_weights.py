"""How weights are held goes with a run: request, trace, the same again, branches, questions and the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest

from engine import DecodeRequest, load
from engine.analysis.fork import branch_point, branch_request, make_branch
from engine.analysis.many_draws import draw_many
from engine.cli.main import main
from engine.declare.weights import (
    ASSISTANT_PREFIX,
    REQUIRED_SETTINGS,
    WeightsParams,
    parse_weights,
    weights_params,
)
from engine.errors import ParameterError
from engine.inspection import rerun
from engine.inspection.trace_logits import run_from_trace
from engine.models import loading
from engine.models import weights as holding
from engine.models.openvino.installation import is_installed
from engine.run.request import check_request, request_from_trace
from engine.strategies import STRATEGIES
from engine.trace import json_io
from tests.helpers.runs import failed, finished, reread
from tests.helpers.sentences import clean

PLACED = {"device_map": "auto", "max_memory": {"cpu": "20MB"}}
FOUR = {
    "quantization": "4bit",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_compute_dtype": "bfloat16",
}
WAYS = [{"dtype": "bfloat16"}, FOUR, {**PLACED, "dtype": "float16"}]
DRAFTED = {"assistant_dtype": "float16", "quantization": "8bit"}


def asked(weights, strategy="greedy", **more):
    params = {"max_new_tokens": 4}
    return DecodeRequest(
        strategy, prompt="Once upon a time", params=params, weights=weights, **more
    )


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"dtype": "int8"}, "dtype = 'int8' is not allowed: it must be one of float32, "),
        ({"dtype": 16}, "dtype = 16 is not allowed: "),
        ({"quantization": "nf4"}, "quantization = 'nf4' is not allowed: it must be one of 8bit, "),
        ({"device_map": "cuda"}, "device_map = 'cuda' is not allowed: it must be one of auto"),
        ({"bnb_4bit_use_double_quant": 1}, "bnb_4bit_use_double_quant = 1 is not allowed: "),
        ({"max_memory": {"cpu": "20MB"}}, "is not allowed: it needs device_map = auto."),
        ({**PLACED, "max_memory": {"cpu": "20"}}, "is not allowed: it must be an object such as"),
        ({**PLACED, "max_memory": {"tpu": "20MB"}}, "max_memory = {'tpu': '20MB'} is not"),
        ({**PLACED, "max_memory": {"cpu": 5}}, "max_memory = {'cpu': 5} is not allowed"),
        ({**PLACED, "max_memory": {}}, "max_memory = {} is not allowed"),
        ({**PLACED, "max_memory": [["cpu"]]}, "max_memory = [['cpu']] is not allowed"),
        ({**PLACED, "max_memory": {"cpu": "0MB"}}, "max_memory = {'cpu': '0MB'} is not allowed"),
        (
            {"bnb_4bit_quant_type": "fp4"},
            "bnb_4bit_quant_type = 'fp4' is not allowed: it needs quantization = 4bit.",
        ),
        (
            {"quantization": "8bit", "bnb_4bit_use_double_quant": True},
            "bnb_4bit_use_double_quant = True is not allowed: it needs quantization = 4bit.",
        ),
        (
            {"bnb_4bit_compute_dtype": "float16"},
            "bnb_4bit_compute_dtype = 'float16' is not allowed: it needs quantization = 4bit.",
        ),
        ({"assistant_dtype": "float16"}, "'float16' is not allowed: greedy has no draft model."),
        ({"detype": "float16"}, "weights = 'detype' is not allowed: "),
        (["dtype"], "weights = ['dtype'] is not allowed: it must be an object"),
    ],
    ids=str,
)
def test_a_bad_value_is_one_sentence_before_anything_is_loaded(weights, said, monkeypatch):
    monkeypatch.setattr(loading, "_load_model", lambda *given: pytest.fail("a model was loaded"))
    assert said in clean(str(failed(asked(weights, model="storyteller-draft"))), most=400)


def test_the_draft_model_has_the_same_parameters_under_its_own_names():
    both = weights_params(assistant=True)
    own = weights_params(assistant=False)
    assert list(both) == [*own, *(f"assistant_{name}" for name in own)]
    limits = {"assistant_max_memory": {"cpu": "1MB"}}
    with pytest.raises(ParameterError, match="it needs assistant_device_map = auto") as no:
        parse_weights(limits, "speculative", assistant=True)
    assert no.value.parameter == "assistant_max_memory"


def test_a_device_that_is_not_here_is_named():
    weights = {"device_map": "auto", "max_memory": {"9": "1GB"}}
    said = clean(str(failed(asked(weights))), most=400)
    assert "max_memory = {'9': '1GB'} names a device that is not here; there is" in said


def test_a_model_that_is_given_loaded_stays_as_it_is():
    request = asked({"dtype": "bfloat16"}, model=load("storyteller"))
    assert "the model is given as it was loaded" in str(failed(request))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("weights", WAYS, ids=str)
def test_a_run_is_recorded_read_and_made_again_alike(weights):
    trace = reread(asked(weights))
    again_asked = request_from_trace(trace)
    assert again_asked.weights == weights
    assert finished(again_asked).outputs == trace.outputs
    assert trace.model.dtype == weights.get("dtype", "float32")
    record = trace.model.weights
    if record is not None:
        assert sum(record.layers_on.values()) == trace.model.layers == 16
        assert {"quantization": record.quantization, **weights}[
            "quantization"
        ] == record.quantization


def test_what_a_machine_does_by_default_is_not_said():
    trace = finished(asked({"dtype": "float32"}))
    assert request_from_trace(trace).weights == {}
    assert trace.model.weights is None


def test_both_models_of_a_run_are_loaded_as_asked():
    trace = reread(asked(DRAFTED, "speculative"))
    assert trace.model.weights.quantization == "8bit"
    assert trace.assistant.weights is None
    assert (trace.model.dtype, trace.assistant.dtype) == ("float32", "float16")
    assert request_from_trace(trace).weights == DRAFTED
    assert request_from_trace(trace, assistant=load("storyteller-draft")).weights == {
        "quantization": "8bit"
    }


def test_traces_from_before_read_as_they_did():
    data = json_io.trace_to_dict(finished(asked({})))
    del data["model"]["weights"]
    trace = json_io.trace_from_dict(data)
    assert trace.model.weights is None
    assert request_from_trace(trace).weights == {}


def test_a_branch_is_held_like_its_parent_unless_it_says_otherwise():
    trace = finished(asked(DRAFTED, "speculative"))
    made = make_branch(branch_point(trace, 0), token_id=300)
    assert branch_request(trace, made).weights == DRAFTED
    assert branch_request(trace, made, "greedy").weights == {"quantization": "8bit"}
    assert branch_request(trace, made, weights={}).weights == {}
    assert finished(branch_request(trace, made, "greedy")).model.weights.quantization == "8bit"


def test_questions_about_a_run_are_answered_by_the_model_as_it_was_held():
    load("storyteller")
    trace = finished(asked(FOUR))
    moment = rerun.replay_to_step(trace, 2)
    assert moment.refused == ""
    assert moment.target.weights.quantization == "4bit"
    whole = finished(asked({}))
    found = loading.find_recorded_model(trace.model)
    assert found is moment.target
    assert loading.find_recorded_model(whole.model) is load("storyteller")
    run = run_from_trace(trace)
    best = int(run.passes[2].logits[0].argmax())
    assert best == trace.steps[2].candidates[0].token_id
    logsumexp = float(run.passes[2].logits[0].logsumexp(-1))
    assert logsumexp == pytest.approx(trace.steps[2].logsumexp, abs=0.05)
    assert logsumexp != pytest.approx(whole.steps[2].logsumexp, abs=1e-3)


def test_many_draws_use_the_model_as_it_is_held(monkeypatch):
    used = []
    original = holding.loading_options
    monkeypatch.setattr(holding, "loading_options", lambda w: used.append(w.dtype) or original(w))
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    batches = list(draw_many(asked({"dtype": "float16"}, "sampling"), 2))
    assert sum(len(batch.draws) for batch in batches) == 2
    assert used == ["float16"]


def test_a_public_deployment_offers_what_it_says(monkeypatch):
    def offer(words):
        settings = dataclasses.replace(holding.SETTINGS, public=True, public_weights=words)
        monkeypatch.setattr(holding, "SETTINGS", settings)

    offer("float32")
    assert check_request(asked({"dtype": "float32"})).weights[0].dtype == "float32"
    for name, value in {**FOUR, "dtype": "bfloat16", "device_map": "auto"}.items():
        if name.startswith("bnb"):
            continue
        said = clean(str(failed(asked({name: value}))))
        assert said == (
            f"{name} = {value!r} is not allowed: this deployment offers float32; leave it at its default."
        )
    with pytest.raises(ParameterError, match="assistant_dtype = 'float16' is not allowed"):
        check_request(asked({"assistant_dtype": "float16"}, "speculative"))
    offer("bfloat16 4bit")
    assert check_request(asked({"quantization": "4bit", "dtype": "bfloat16"}))
    with pytest.raises(ParameterError, match="this deployment offers bfloat16, 4bit"):
        check_request(asked(FOUR))
    offer("")
    with pytest.raises(ParameterError, match="this deployment offers the default alone"):
        check_request(asked(PLACED))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(
    "words", ["", "float32", "bfloat16 4bit", "4bit bfloat16 double_quant auto"]
)
def test_what_is_offered_is_what_is_allowed(monkeypatch, words, public, device):
    settings = dataclasses.replace(holding.SETTINGS, public=public, public_weights=words)
    monkeypatch.setattr(holding, "SETTINGS", settings)
    kinds = weights_params(assistant=True)
    offered = holding.filter_offered_params(kinds, lambda: device)
    if not public and is_installed():
        assert offered == kinds
    several = {"max_memory": [{"cpu": "1GB"}]}
    for name, kind in kinds.items():
        prefix = ASSISTANT_PREFIX if name.startswith(ASSISTANT_PREFIX) else ""
        bare = name.removeprefix(prefix)
        values = getattr(kind, "choices", several.get(bare, [True]))
        other, needed = REQUIRED_SETTINGS.get(bare, (None, None))
        allowed = set()
        for value in values:
            held = WeightsParams(
                **{bare: kind.check(bare, value)}, **({other: needed} if other else {})
            )
            with contextlib.suppress(ParameterError):
                holding.check_weights_allowed(held, device)
                allowed.add(str(value))
        # What the machine does anyway is no choice where there is none beside it.
        plain = {"dtype": {holding.default_dtype(device)}, "backend": {"torch"}}.get(bare, set())
        plain = {"nf4"} if bare == "bnb_4bit_quant_type" else plain
        if allowed <= plain:
            assert name not in offered
        else:
            found = getattr(offered[name], "choices", several.get(bare, [True]))
            assert {str(value) for value in found} == allowed


@pytest.mark.nightly
def test_the_command_line(capsys, tmp_path):
    file, forked = tmp_path / "run.json", tmp_path / "fork.json"
    common = ["--prompt", "Once upon a time", "--max-new-tokens", "3"]
    own = ["--dtype", "bfloat16", "--assistant-quantization", "8bit"]
    assert main(["run", "speculative", *common, *own, "--trace", str(file)]) == 0
    trace = json_io.load(file)
    assert trace.model.dtype == "bfloat16"
    assert trace.assistant.weights.quantization == "8bit"
    more = ["--quantization", "4bit", "--bnb-4bit-use-double-quant", "--text", " and"]
    fork = ["run", "greedy", "--fork", str(file), "--at", "0", *more, "--trace", str(forked)]
    assert main(fork) == 0
    branched = json_io.load(forked)
    assert branched.model.dtype == "bfloat16"
    assert branched.model.weights.bnb_4bit_use_double_quant
    placed = ["--device-map", "auto", "--max-memory", json.dumps(PLACED["max_memory"])]
    assert main(["run", "greedy", *common, *placed, "--trace", str(file)]) == 0
    assert json_io.load(file).model.weights.layers_on == {"cpu": 4, "disk": 12}
    assert (
        main(
            [
                "run",
                "greedy",
                *common,
                "--dtype",
                "float16",
                "--device",
                "cpu",
                "--trace",
                str(file),
            ]
        )
        == 0
    )
    assert json_io.load(file).model.dtype == "float16"
    capsys.readouterr()
    assert main(["run", "greedy", *common, "--max-memory", '{"cpu": "1MB"}']) == 2
    assert "it needs device_map = auto" in capsys.readouterr().err


def test_the_list_of_strategies_says_how_weights_can_be_held(capsys):
    assert main(["list", "--json"]) == 0
    listed = {s["name"]: s for s in json.loads(capsys.readouterr().out)["strategies"]}
    for name, strategy in STRATEGIES.items():
        assert list(listed[name]["weights"]) == list(weights_params(strategy.assistant != "none"))
