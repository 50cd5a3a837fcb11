"""Runs on OpenVINO: every strategy writes what it writes on torch, and what cannot be is refused in one sentence."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
import threading

import pytest
import torch
import transformers

from engine import DecodeRequest, decode, load
from engine.analysis.generate_outputs import rerun_generate
from engine.declare.weights import WeightsParams, weights_params
from engine.errors import Cancelled, ModelError, ParameterError
from engine.export.plan import plan_export
from engine.export.script import code_summary
from engine.models import build_cache, loading, subprocess_job
from engine.models import weights as holding
from engine.models.openvino import graph_store, installation
from engine.run.preflight import preflight
from engine.run.progress import format_progress
from engine.run.request import request_from_trace
from engine.sources import catalogue
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.events import Loading
from tests.helpers.models import tiny_llama
from tests.helpers.references import params_of
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import WITHOUT_HEADS

pytest.importorskip("openvino")
pytestmark = pytest.mark.filterwarnings("ignore")
PROMPT = [500, 91, 112, 40, 500, 91, 112]
ON = {"backend": "openvino"}
_SEEDS = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """Return the folder of what is converted, an empty one at first."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("home")
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(folder))
    patch.setattr(catalogue, "SETTINGS", settings)
    patch.setattr(loading, "_CACHE", type(loading._CACHE)())
    yield folder / "made"
    patch.undo()


@pytest.fixture
def tiny(tmp_path):
    """Return the folder of a model of two layers."""
    tiny_llama(2, seed=next(_SEEDS), vocab_size=512).save_pretrained(tmp_path / "tiny")
    return str(tmp_path / "tiny")


def asked(strategy, model="storyteller", new=10, weights=ON, **params):
    if STRATEGIES[strategy].assistant == "same_tokenizer" and weights:
        weights = weights | {"assistant_backend": "openvino"}
    return DecodeRequest(
        strategy,
        model,
        input_ids=PROMPT,
        params={"max_new_tokens": new, **params_of(strategy), **params},
        seed=3,
        weights=weights,
    )


def tokens(trace):
    return [output.token_ids for output in trace.outputs]


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", WITHOUT_HEADS)
def test_every_strategy_writes_what_it_writes_on_torch(strategy):
    plain, found = (finished(asked(strategy, weights=weights)) for weights in ({}, ON))
    assert tokens(found) == tokens(plain)
    assert found.model.weights.backend == "openvino"
    assert len(found.steps) == len(plain.steps)
    for own, other in zip(found.steps, plain.steps, strict=True):
        assert own.emit == other.emit
        assert own.logsumexp == pytest.approx(other.logsumexp, abs=1e-3)
    assert found.assistant is None or found.assistant.dtype == "float32"


@pytest.mark.by_day("sampling")
@pytest.mark.parametrize("strategy", ["sampling", "beam_sampling"])
def test_a_seed_draws_the_same(strategy):
    options = {"temperature": 1.3, "top_k": 0, "num_return_sequences": 2, "new": 20}
    plain, found = (finished(asked(strategy, weights=w, **options)) for w in ({}, ON))
    assert tokens(found) == tokens(plain)


def test_a_run_is_recorded_read_and_made_again_alike():
    trace = finished(asked("greedy"))
    again = json_io.loads(json_io.dumps(trace))
    assert again.model == trace.model
    assert request_from_trace(again).weights == ON
    assert loading.find_recorded_model(trace.model) is load(
        "storyteller", weights=WeightsParams(**ON)
    )
    said = code_summary(plan_export(trace))
    assert "was computed by openvino" in said
    assert "near tie" in said


def test_a_conversion_is_reported_and_done_once(tiny, home):
    before = set(home.glob("*/graph.xml"))
    told = _conversions(tiny)
    assert told[0].converting == "openvino"
    assert format_progress(told[0]).startswith("Converting ")
    assert format_progress(told[0]).endswith(" for openvino, once…")
    [made] = set(home.glob("*/graph.xml")) - before
    written = made.stat().st_mtime_ns
    loading._CACHE.clear()
    assert not _conversions(tiny)
    assert made.stat().st_mtime_ns == written
    held = load(tiny, weights=WeightsParams(**ON))
    assert held.memory_bytes() > (made.parent / "graph.bin").stat().st_size


def _conversions(model):
    events = decode(asked("greedy", model))
    return [event for event in events if isinstance(event, Loading) and event.converting]


@pytest.mark.nightly
def test_eight_bits_are_another_model_and_say_how_much():
    held = {"backend": "openvino-int8"}
    trace = finished(asked("greedy", "storyteller-draft", weights=held))
    found = trace.model.weights.agreement
    assert found.same_top > 0.9
    assert 0 < found.kl < 0.05
    assert found.perplexity == pytest.approx(found.torch_perplexity, rel=0.05)
    assert "which is another model" in code_summary(plan_export(trace))
    again = json_io.loads(json_io.dumps(trace))
    assert again.model.weights.agreement == found


def test_a_killed_conversion_leaves_nothing(tiny, home, monkeypatch):
    before = {path.name for path in home.glob("*")}

    class Dying(subprocess.Popen):
        def __enter__(self):
            self.kill()
            return super().__enter__()

    monkeypatch.setattr(subprocess_job.subprocess, "Popen", Dying)
    with pytest.raises(ModelError, match="cannot be converted for openvino: it ended before"):
        graph_store.ensure_graph(tiny, tiny, "openvino")
    monkeypatch.undo()
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        graph_store.ensure_graph(tiny, tiny, "openvino", stop)
    assert {path.name for path in home.glob("*")} == before


@pytest.mark.nightly
def test_graphs_that_nothing_asks_for_any_more_are_removed(tiny, tmp_path, monkeypatch):
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(tmp_path / "home"))
    monkeypatch.setattr(catalogue, "SETTINGS", settings)
    first = graph_store.ensure_graph(tiny, tiny, "openvino")
    monkeypatch.setattr(build_cache, "run_job", _pretend)
    monkeypatch.setattr(graph_store, "converter_version", lambda: "openvino of tomorrow")
    second = graph_store.ensure_graph(tiny, tiny, "openvino")
    assert second.is_dir()
    assert not first.exists()


def _pretend(module, order, *rest, **named):
    del module, rest, named
    folder = order["folder"]
    for name in ("config.json", "graph.xml"):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            json.dump({}, file)
    return {}


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (ON | {"quantization": "8bit"}, "quantization = '8bit' is not allowed: it needs backend"),
        (ON | {"device_map": "auto"}, "device_map = 'auto' is not allowed: it needs backend"),
        (
            ON | {"dtype": "bfloat16"},
            "dtype = 'bfloat16' is not allowed: it needs backend = torch.",
        ),
        ({"backend": "onnx"}, "backend = 'onnx' is not allowed: it must be one of torch, openvino"),
    ],
)
def test_what_does_not_go_together_is_refused(weights, said):
    assert clean(str(failed(asked("greedy", weights=weights)))).startswith(said)


def test_without_the_package_nothing_is_offered_and_a_request_says_what_to_install(monkeypatch):
    monkeypatch.setattr(holding, "is_installed", lambda: False)
    assert clean(str(failed(asked("greedy")))) == (
        "backend = 'openvino' is not allowed: the package openvino is not installed; python -m pip"
        " install -r requirements-openvino.txt brings it."
    )
    kinds = holding.filter_offered_params(weights_params(assistant=False), lambda: "cpu")
    assert "backend" not in kinds
    assert "quantization" in kinds
    monkeypatch.undo()
    assert (
        "openvino-int8"
        in holding.filter_offered_params(weights_params(assistant=False), lambda: "cpu")[
            "backend"
        ].choices
    )
    assert installation.is_installed()


def test_models_without_a_graph_are_refused_with_the_reason(tmp_path):
    folder = tmp_path / "mamba"
    config = transformers.MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2)
    transformers.MambaForCausalLM(config).save_pretrained(folder)
    said = clean(str(failed(asked("greedy", str(folder)))))
    reason = "its layers keep a running state, or a cache that cannot be cut"
    assert said == f"{folder} cannot be converted for openvino: {reason}."
    found = preflight(Source.parse("storyfixer"), WeightsParams(**ON))
    assert set(found.cannot_serve.values()) == {
        "storyfixer cannot be converted for openvino: it is an encoder-decoder, and only decoders"
        " are converted."
    }
    assert preflight(Source.parse("storyteller"), WeightsParams(**ON)).fits_memory


def test_a_custom_method_needs_torch():
    said = clean(str(failed(_custom())))
    assert said == (
        "storyteller cannot be used with mirostat: a custom method needs backend = torch."
    )


def _custom():
    return DecodeRequest(
        "custom", "storyteller", input_ids=PROMPT, params={"max_new_tokens": 3}, weights=ON
    )


def test_openvino_tells_nobody_that_it_is_used():
    import openvino
    from openvino.tools.ovc import telemetry_stub

    assert openvino.tools.ovc.telemetry.__class__.__module__ == telemetry_stub.__name__
    assert sys.modules["openvino_telemetry"] is None


def test_a_graph_has_transformers_outputs_except_attentions():
    shown = {"output_logits": True, "output_hidden_states": True}
    found = rerun_generate(finished(asked("greedy", new=4)), **shown)
    plain = rerun_generate(finished(asked("greedy", new=4, weights={})), **shown)
    assert torch.equal(found.sequences, plain.sequences)
    for own, other in zip(found.logits, plain.logits, strict=True):
        assert torch.allclose(own, other, atol=1e-3)
    assert len(found.hidden_states[1]) == len(plain.hidden_states[1])
    with pytest.raises(ParameterError, match="shows no attentions; leave it out"):
        rerun_generate(finished(asked("greedy", new=4)), output_attentions=True)
