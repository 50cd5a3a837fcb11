"""A LoRA adapter as a model: merged once into its base, then a folder like any other, and every way it can be wrong."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil
import threading
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers import set_seed

from engine import DecodeRequest
from engine.analysis.score_with_other_model import compare_models, models_to_load
from engine.cli.main import main
from engine.declare.weights import WeightsParams
from engine.errors import Cancelled, ModelError
from engine.export.plan import plan_export
from engine.export.script import script_text
from engine.models import build_cache, hub, hub_lookup, subprocess_job
from engine.models import loading as models
from engine.models.meta_model import describe_model
from engine.models.model_resolver import resolve_model
from engine.run.preflight import preflight
from engine.sources import catalogue, lora_adapters, source
from engine.sources.catalogue import MODEL_DIR
from engine.sources.source import Adapter, Embedded, Folder, Source
from engine.strategies import STRATEGIES
from tests.helpers.adapters import BASE, change_config, make_adapter, merged_here, plain
from tests.helpers.hub import serving
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

NEAR = 1e-5
"""Of the largest logit: two ways to compute one thing in float32 part by rounding."""
HUB = "someone/poet"


def set_home(patch, folder):
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(folder))
    patch.setattr(catalogue, "SETTINGS", settings)
    patch.setattr(models, "_CACHE", type(models._CACHE)())


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """Return an adapter's folder, the model as peft runs it, and the folder of what was merged."""
    place = tmp_path_factory.mktemp("adapters")
    adapted = make_adapter(place / "poet")
    with pytest.MonkeyPatch.context() as patch:
        set_home(patch, place / "models")
        folder, _ = resolve_model(Source.parse(str(place / "poet")))
    return place / "poet", adapted, Path(folder)


@pytest.fixture
def home(merged, monkeypatch):
    """Use the folder where the adapter was merged, and merge no other."""
    set_home(monkeypatch, merged[2].parent.parent)
    monkeypatch.setattr(build_cache, "run_job", None)
    return merged


@pytest.fixture
def own(merged, tmp_path, monkeypatch):
    """Return a copy of the adapter that may be damaged, with nothing merged."""
    set_home(monkeypatch, tmp_path / "models")
    return Path(shutil.copytree(merged[0], tmp_path / "poet"))


def refusal(name, tmp_path):
    """Return the sentence for an adapter, of which nothing stays."""
    with pytest.raises(ModelError) as caught:
        resolve_model(Source.parse(str(name)))
    assert not list(tmp_path.glob("models/made/*"))
    assert not list(tmp_path.glob("models/made/.*"))
    return clean(str(caught.value).replace(str(tmp_path), ""), most=300)


def test_what_is_merged_computes_and_writes_what_peft_does(home):
    path, adapted, folder = home
    loaded = models.load(str(path), dtype="float32")
    ids = torch.arange(60)[None] * 7
    with torch.inference_mode():
        found, expected = loaded.model(ids).logits, adapted(input_ids=ids).logits
        assert (found - expected).abs().max() < NEAR * expected.abs().max()
        assert (plain()(ids).logits - expected).abs().max() > 0.1, "the adapter changes something"
    assert loaded.revision == folder.name
    assert describe_model(Source.parse(str(path))) == loaded.capabilities
    own = {"do_sample": True, "top_k": 50, "top_p": 1.0, "temperature": 1.0, "num_beams": 1}
    for strategy, kwargs in (("greedy", {"do_sample": False}), ("sampling", own)):
        request = DecodeRequest(strategy, str(path), "The", params={"max_new_tokens": 12}, seed=4)
        trace = finished(request)
        assert (trace.model.id, trace.model.revision) == (str(path), folder.name)
        prompt = torch.tensor([trace.prompt_ids])
        set_seed(4)
        written = adapted.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=12, **kwargs
        )
        assert list(trace.outputs[0].token_ids) == written[0, prompt.shape[1] :].tolist(), strategy
    assert f"MODEL = {str(folder)!r}" in script_text(plan_export(trace))


def test_base_and_adapter_can_be_compared(home):
    path, adapted, _ = home
    params = {"max_new_tokens": 6}
    trace = finished(DecodeRequest("beam_search", str(path), "Once", params=params))
    pair = models_to_load(trace, BASE, {"dtype": "float32"})
    found = compare_models(trace, *(models.load(name, weights=held) for name, held in pair))
    assert (found.own.model.id, found.other.model.id) == (str(path), BASE)
    ids = torch.tensor([[*trace.prompt_ids, *trace.outputs[0].token_ids]])
    start, new = len(trace.prompt_ids) - 1, ids[0, len(trace.prompt_ids) :]
    with torch.inference_mode():
        ours, theirs = (
            torch.log_softmax(model(input_ids=ids).logits[0, start:-1].double(), -1)
            for model in (adapted, plain())
        )
    for side, rows in ((found.own, ours), (found.other, theirs)):
        expected = rows.gather(-1, new[:, None])[:, 0].tolist()
        assert side.logprobs == pytest.approx(expected, abs=10 * NEAR)
    kl = (ours.exp() * (ours - theirs)).sum(-1)
    assert found.kl == pytest.approx(kl.tolist(), abs=10 * NEAR)
    assert found.mean_kl > 10 * NEAR, "the adapter changes something"


def test_an_adapter_that_has_changed_is_another_model(home, tmp_path):
    path, _, folder = home
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    assert Source.parse(str(copy)).folder() is None, "it has not been read yet"
    assert resolve_model(Source.parse(str(copy))) == (str(folder), folder.name), (
        "the same content is not merged again"
    )
    loaded = models.load(str(copy))
    assert models.load(str(copy)) is loaded
    change_config(copy, lora_alpha=16)
    assert Source.parse(str(copy)).folder() is None
    assert models.get_cached_model(Source.parse(str(copy))) is None
    with pytest.raises(TypeError, match="NoneType"):
        resolve_model(Source.parse(str(copy)))


def test_its_base_can_stand_in_the_name(home, tmp_path):
    path, _, folder = home
    copy = Path(shutil.copytree(path, tmp_path / "a poet on holiday"))
    change_config(copy, base_model_name_or_path="/home/trainer/base")
    said = str(failed(DecodeRequest("greedy", str(copy), "The")))
    assert "LoRA adapter of '/home/trainer/base', which is not on this machine" in said
    assert said.endswith(f'name its base, as in "{copy} on BASE".')
    named = Source.parse(f"{copy} on {BASE}")
    assert (named.place, named.named_base) == (Folder(str(copy)), Embedded(BASE))
    assert resolve_model(Source.parse(f"{path} on {MODEL_DIR / BASE}")) == (
        str(folder),
        folder.name,
    )
    assert "is not allowed" in str(failed(DecodeRequest("greedy", f"{copy} on nothing", "The")))
    stacked = f"{copy} on {path}"
    assert "which is one itself" in str(failed(DecodeRequest("greedy", stacked, "The")))


def test_the_hub_has_adapters_too(home, tmp_path, monkeypatch):
    path, _, folder = home
    shutil.copytree(path, tmp_path / HUB)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "PROBE_S", int(PATIENCE_S))
    monkeypatch.setattr(hub_lookup, "LOOKUP_TIMEOUT_S", PATIENCE_S)
    with serving(tmp_path) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        told = preflight(Source.parse(HUB))
        assert (told.where, told.base, told.adapter.r) == ("hub", BASE, 4)
        assert "adapter_model.safetensors" not in served.files()
        assert resolve_model(Source.parse(HUB)) == (str(folder), folder.name)
        assert models.load(HUB).revision == folder.name
        assert preflight(Source.parse(HUB)).where == "here"


def test_a_public_deployment_merges_no_adapter(tmp_path, monkeypatch):
    named = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": BASE}
    (tmp_path / "adapter_config.json").write_text(json.dumps(named | {"r": 4, "lora_alpha": 8}))
    assert isinstance(Source.parse(str(tmp_path)), Adapter)
    for module in (source, lora_adapters, hub):
        settings = dataclasses.replace(module.SETTINGS, public=True, allowed_models=HUB)
        monkeypatch.setattr(module, "SETTINGS", settings)
    for name in (str(tmp_path), f"{tmp_path} on {BASE}", f"{HUB} on {BASE}"):
        with pytest.raises(ModelError, match="is not allowed"):
            resolve_model(Source.parse(name))
    # Somebody has fetched it, or its owner's list has it.
    monkeypatch.setattr(hub, "fetch_snapshot", lambda *given: (str(tmp_path), "0" * 40))
    with pytest.raises(ModelError, match="none is merged on a public deployment"):
        resolve_model(Source.parse(HUB))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"peft_type": "IA3"}, "has peft_type = 'IA3' in its adapter_config.json; only LORA"),
        ({"task_type": "SEQ_CLS"}, "has task_type = 'SEQ_CLS' in its adapter_config.json; only"),
        ({"task_type": "SEQ_2_SEQ_LM"}, "does not fit its base by the task_type"),
        ({"r": 0}, "has r = 0 in its adapter_config.json; from 1 to 4096 works."),
        ({"r": 10**9}, "has r = 1000000000 in its adapter_config.json"),
        ({"rank_pattern": {"q_proj": "x"}}, "has rank_pattern = 'x'"),
        ({"lora_alpha": "all"}, "has lora_alpha = 'all' in its adapter_config.json"),
        ({"target_modules": {"q": 1}}, "has target_modules = {'q': 1}"),
        ({"megatron_config": {"a": 1}}, "asks for megatron_config"),
        ({"trainable_token_indices": [3]}, "merge it with peft's merge_and_unload()"),
        ({"base_model_name_or_path": None}, "that does not say of which base: name its base"),
        ({"base_model_name_or_path": 7}, "that does not say of which base: name its base"),
        ({"base_model_name_or_path": "storyteller"}, "of storyteller takes 256 values"),
        (
            {"base_model_name_or_path": "no/base", "revision": "v2"},
            "'no/base@v2', which is not on this machine: hf download no/base --revision v2 brings it",
        ),
        ({"base_model_name_or_path": "smollm2"}, "python -m engine fetch smollm2 brings it, or"),
    ],
)
def test_an_adapter_that_cannot_be_used(own, tmp_path, monkeypatch, fields, said):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    change_config(own, **fields)
    assert said in refusal(own, tmp_path)


def test_files_that_are_no_adapter(own, tmp_path):
    weights, config = own / "adapter_model.safetensors", own / "adapter_config.json"
    for text in ("{", "[]", "[" * 100_000):
        config.write_text(text)
        assert refusal(own, tmp_path) == "/poet has an adapter_config.json that is not valid."
        assert preflight(Source.parse(str(own))).notes[0].endswith("that is not valid.")
    config.write_text(json.dumps({"peft_type": "LORA", "task_type": "CAUSAL_LM"}))
    assert "has r = None" in refusal(own, tmp_path)
    change_config(own, r=4, lora_alpha=8, base_model_name_or_path=BASE)
    weights.write_bytes(weights.read_bytes()[:900])
    assert "has a damaged weights file" in refusal(own, tmp_path)
    weights.rename(own / "adapter_model.bin")
    assert "adapter_model.bin, a pickle that could run code; only" in refusal(own, tmp_path)
    assert "pickle" in preflight(Source.parse(str(own))).notes[0]
    (own / "adapter_model.bin").unlink()
    assert "no adapter_model.safetensors in the same folder" in refusal(own, tmp_path)


def test_a_base_that_is_kept_quantised_is_refused(own, tmp_path):
    base = Path(shutil.copytree(MODEL_DIR / BASE, tmp_path / "base"))
    config = json.loads((base / "config.json").read_text())
    packed = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    (base / "config.json").write_text(json.dumps(config | packed))
    assert "whose weights are kept quantised" in refusal(f"{own} on {base}", tmp_path)


def test_without_peft_one_sentence_says_how_to_get_it(own, tmp_path, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(subprocess_job, "version", missing)
    said = "peft that merges it is not installed: python -m pip install -r requirements-models.txt"
    assert said in refusal(own, tmp_path)
    assert said in preflight(Source.parse(str(own))).notes[0]


def test_a_merge_that_is_broken_off_leaves_nothing(own, tmp_path, monkeypatch):
    stop = threading.Event()

    def full(job, order, report, **named):
        (Path(order["folder"]) / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    def stopped(job, order, report, **named):
        (Path(order["folder"]) / "model.safetensors").write_bytes(b"half")
        stop.set()
        report({})

    monkeypatch.setattr(build_cache, "run_job", full)
    assert refusal(own, tmp_path).startswith("The disk has no space left for /poet")
    monkeypatch.setattr(build_cache, "run_job", stopped)
    with pytest.raises(Cancelled):
        resolve_model(Source.parse(str(own)), stop)
    assert not list(tmp_path.glob("models/made/*"))


@pytest.mark.parametrize(
    ("base", "lora"),
    [
        # Three whose head shares the embeddings' weights, and gets its own.
        (BASE, {"target_modules": ["q_proj", "lm_head"]}),
        (BASE, {"target_modules": ["embed_tokens"], "use_rslora": True}),
        (BASE, {"modules_to_save": ["lm_head"], "use_dora": True}),
        ("storyfixer", {"target_modules": ["q", "v"]}),
    ],
)
def test_every_kind_of_lora_is_merged_exactly(tmp_path, base, lora):
    adapted = make_adapter(tmp_path, base, **lora)
    ids = torch.arange(30)[None]
    given = {"input_ids": ids} | ({"decoder_input_ids": ids} if base == "storyfixer" else {})
    with torch.inference_mode():
        expected = adapted(**given).logits
        found = merged_here(tmp_path, base)(**given).logits
        assert (plain(base)(**given).logits - expected).abs().max() > 0.1
    assert (found - expected).abs().max() < NEAR * expected.abs().max()


def test_what_only_one_of_the_two_has_is_refused(tmp_path):
    make_adapter(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    weights = load_file(path)
    key = next(key for key in weights if "layers.0" in key and "lora_B" in key)
    for change, said in (
        (
            {key.replace("layers.0", "layers.77"): weights[key].clone()},
            "no place for its model.layers.77",
        ),
        ({key: weights[key][:-1].contiguous()}, "where the adapter has"),
    ):
        save_file(weights | change, path)
        with pytest.raises(ModelError, match=said):
            merged_here(tmp_path)
    save_file({k: v for k, v in weights.items() if k != key}, path)
    with pytest.raises(ModelError, match=r"it lacks the weights model\.layers\.0"):
        merged_here(tmp_path)


def test_it_is_reported_before_and_after_it_is_merged(home, own, tmp_path, monkeypatch, capsys):
    held = WeightsParams(dtype="bfloat16")
    before, base = preflight(Source.parse(str(own)), held), preflight(Source.parse(BASE), held)
    assert (before.where, before.base, before.adapter.lora_alpha) == ("unmade", BASE, 8)
    assert before.adapter.target_modules == ("q_proj", "v_proj")
    assert before.disk_bytes == 4 * base.parameters
    assert before.fits
    same = ("architecture", "model_type", "parameters", "memory_bytes", "context_length")
    set_home(monkeypatch, home[2].parent.parent)
    after = preflight(Source.parse(str(home[0])), held)
    assert (after.where, after.revision) == ("here", home[2].name)
    for field in (*same, "chat_template"):
        assert getattr(before, field) == getattr(base, field) == getattr(after, field), field
    # The sentences name the model.
    refused = [set(found.cannot_serve) for found in (before, base, after)]
    assert refused == [{"mtp", "masked_diffusion"}] * 3
    change_config(own, base_model_name_or_path="no/base")
    unknown = preflight(Source.parse(str(own)))
    assert unknown.cannot_serve is None
    assert "hf download no/base brings it" in clean(unknown.notes[0].replace(str(tmp_path), ""))
    change_config(own, base_model_name_or_path="storyteller")
    assert set(preflight(Source.parse(str(own))).cannot_serve) == set(STRATEGIES)
    assert main(["about", str(home[0])]) == 0
    said = capsys.readouterr().out
    assert "LoRA adapter:  rank 4, alpha 8, on q_proj, v_proj" in said
    assert f"Base:          {BASE}" in said
    assert main(["about", str(home[0]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adapter"]["r"] == 4
