"""However weights are held, every strategy writes what generate() writes with the same model in memory."""

from __future__ import annotations

import dataclasses
import gc
import shutil

import pytest
import torch

from engine import DecodeRequest, decode
from engine.declare.weights import WeightsParams
from engine.loops.drafting.assistant import view_first_layers
from engine.loops.logit_lens import is_tied
from engine.models import loading
from engine.sources.catalogue import MODEL_DIR
from engine.strategies import STRATEGIES
from engine.trace.events import Failed
from tests.helpers.heads import with_heads
from tests.helpers.models import tiny_llama
from tests.helpers.nightly import cross
from tests.helpers.references import expected, params_of
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS

PROMPT, NEW, SEED = [500, 91, 112, 40, 500, 91, 112], 6, 3
ON_DISK = {"device_map": "auto", "max_memory": {"cpu": "2400KB"}}
EVERYDAY = {
    "bfloat16": {"dtype": "bfloat16"},
    "8bit": {"quantization": "8bit"},
    "4bit": {"quantization": "4bit"},
    "disk": ON_DISK,
}
WAYS = {
    **EVERYDAY,
    "float16": {"dtype": "float16"},
    "8bit-float16": {"quantization": "8bit", "dtype": "float16"},
    "4bit-double": {
        "quantization": "4bit",
        "bnb_4bit_quant_type": "fp4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": "bfloat16",
        "dtype": "bfloat16",
    },
    "auto": {"device_map": "auto"},
    "disk-bfloat16": {"device_map": "auto", "dtype": "bfloat16", "max_memory": {"cpu": "1200KB"}},
    "all-on-disk": {"device_map": "auto", "max_memory": {"cpu": "1KB"}},
}
WHOLE = ("disk", "auto", "all-on-disk")
"""Ways that hold float32."""
READ_ANEW = ("contrastive_search", "dola", "diverse_beam_search")
MARKED = [pytest.param(way, marks=() if way in EVERYDAY else pytest.mark.nightly) for way in WAYS]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of a tiny model and a draft for it, with a real tokenizer."""
    place = tmp_path_factory.mktemp("held")
    wide = {"vocab_size": 4096, "eos_token_id": 0, "hidden_size": 64, "intermediate_size": 128}
    for name, layers, seed in (("target", 4, 1), ("draft", 2, 2)):
        with_heads(tiny_llama(layers, seed=seed, **wide), place / name).save_pretrained(
            place / name
        )
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(MODEL_DIR / "storyteller" / file, place / name)
    return str(place / "target"), str(place / "draft")


def held(strategy, folders, weights, **more):
    """Return a request whose models are held so, the draft like the target."""
    drafted = STRATEGIES[strategy].assistant != "none"
    params = {"max_new_tokens": NEW, **params_of(strategy)}
    weights = weights | ({f"assistant_{n}": v for n, v in weights.items()} if drafted else {})
    return DecodeRequest(
        strategy,
        folders[0],
        input_ids=PROMPT,
        params=params,
        seed=SEED,
        assistant=folders[1] if drafted else None,
        weights=weights,
        **more,
    )


@pytest.mark.by_day("bfloat16-mtp", "auto-speculative", "all-on-disk-early_exit")
@pytest.mark.parametrize(("way", "strategy"), cross([*WAYS], OURS))
def test_equal_to_generate_on_the_same_model(folders, way, strategy):
    request = held(strategy, folders, WAYS[way])
    trace = finished(request)
    loaded = loading.load(folders[0], weights=weights_of(WAYS[way]))
    ids = [list(output.token_ids) for output in trace.outputs]
    assert [n for n in trace.notes if "missing" in n] == []
    report = getattr(trace.steps[-1].detail, "report", None)
    if report is not None:
        assert report.parting is None
    if strategy in READ_ANEW and way not in WHOLE:
        # Their references read every step anew, which in few bits is another sum.
        given = dataclasses.replace(request, model=loaded, weights={})
        assert ids == [list(output.token_ids) for output in finished(given).outputs]
        return
    assert ids == expected(strategy, loaded, PROMPT, NEW, SEED, True)


def weights_of(values):
    limits = values.get("max_memory")
    pairs = None if limits is None else tuple(limits.items())
    return WeightsParams(**{**values, "max_memory": pairs})


@pytest.mark.by_day("sampling", "beam_search", "mtp")
@pytest.mark.parametrize("strategy", OURS)
def test_layers_on_disk_change_no_number(folders, strategy):
    """Layers left early, layers read apart and draft models are the same ones, wherever they wait."""
    steps = [
        [dataclasses.replace(step, elapsed_s=0, detail=None) for step in trace.steps]
        for trace in (
            finished(held(strategy, folders, {})),
            finished(held(strategy, folders, ON_DISK)),
        )
    ]
    assert steps[0] == steps[1]


def test_a_draft_in_another_precision(folders):
    request = held("speculative", folders, {})
    weights = {"assistant_dtype": "bfloat16", "dtype": "float16"}
    trace = finished(dataclasses.replace(request, weights=weights))
    assert (trace.model.dtype, trace.assistant.dtype) == ("float16", "bfloat16")


def test_the_record_says_where_the_layers_are(folders):
    trace = finished(held("greedy", folders, ON_DISK))
    on = trace.model.weights.layers_on
    assert on == {"cpu": 2, "disk": 2}
    assert trace.model.weights.max_memory == ON_DISK["max_memory"]
    assert finished(held("greedy", folders, {"dtype": "float16"})).model.weights is None


def test_a_model_left_early_reads_its_first_layers_only(folders):
    loaded = loading.load(folders[0], weights=weights_of(ON_DISK))
    counted = []
    last = loaded.model.model.layers[3]
    remove = last.register_forward_pre_hook(lambda *given: counted.append(1))
    try:
        with torch.no_grad():
            short = view_first_layers(loaded.model, 2)(
                torch.tensor([PROMPT]), use_cache=False
            ).logits
            assert counted == []
            whole = loaded.model(torch.tensor([PROMPT]), use_cache=False).logits
    finally:
        remove.remove()
    assert counted == [1]
    assert not torch.equal(short, whole)


def test_weights_on_disk_are_not_taken_for_tied(tmp_path, folders):
    loaded = loading.load(folders[0], weights=weights_of(ON_DISK))
    assert not is_tied(loaded.model)
    assert is_tied(
        loading.load(
            "storyteller", weights=weights_of(ON_DISK | {"max_memory": {"cpu": "20MB"}})
        ).model
    )


def test_the_folder_of_what_waits_on_disk_goes_with_its_model(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    loaded = loading.load(folders[0], weights=weights_of(ON_DISK))
    assert ["offloaded-" in path.name for path in tmp_path.iterdir()] == [True]
    loading._CACHE.clear()
    del loaded
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_matrices_that_four_bits_cannot_pack_are_refused_before_the_run(tmp_path):
    folder = tmp_path / "narrow"
    tiny_llama(2, seed=1, vocab_size=4096, eos_token_id=0).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL_DIR / "storyteller" / file, folder)
    request = held("greedy", (str(folder), ""), {"quantization": "4bit"})
    *_, last = decode(request)
    if isinstance(last, Failed):  # elsewhere bitsandbytes packs nothing
        assert clean(str(last.error), most=400).endswith(
            "one of its matrices is 32 by 32, and they must be multiples of 32 and 64."
        )
    else:
        assert last.trace.outputs


def test_quantised_layers_do_not_wait_on_disk(folders):
    said = clean(str(failed(held("greedy", folders, ON_DISK | {"quantization": "8bit"}))), most=400)
    assert "quantised layers cannot wait on disk, so max_memory = " in said


def test_no_library_writes_next_to_a_text(folders, capfd, monkeypatch):
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    for weights in EVERYDAY.values():
        finished(held("greedy", folders, weights))
        finished(held("contrastive_search", folders, weights))
    assert capfd.readouterr() == ("", "")


def test_every_way_is_a_model_of_its_own_and_counts_as_such(folders):
    loaded = {way: loading.load(folders[0], weights=weights_of(WAYS[way])) for way in EVERYDAY}
    whole = loading.load(folders[0])
    assert loading.load(folders[0], dtype="float32") is whole
    assert len({id(model) for model in [whole, *loaded.values()]}) == len(EVERYDAY) + 1
    size = whole.memory_bytes()
    assert loaded["bfloat16"].memory_bytes() * 2 == size
    assert loaded["4bit"].memory_bytes() < loaded["8bit"].memory_bytes() < size
    assert loaded["disk"].memory_bytes() < 1_500_000 < size


def test_the_room_counts_how_weights_are_held(monkeypatch, folders):
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    # 4,096 by 64 twice at full width, and four layers of 36,864 values in matrices.
    for weights, least, named in (
        ({}, 2.6, "float32"),
        ({"dtype": "bfloat16"}, 1.3, "bfloat16"),
        ({"quantization": "8bit"}, 2.2, "float32, 8bit"),
        ({"quantization": "4bit"}, 2.1, "float32, 4bit"),
    ):
        _room(monkeypatch, least)
        said = clean(str(failed(held("greedy", folders, weights))), most=400)
        assert f"GB of memory as {named}; at most" in said
        _room(monkeypatch, least + 0.1)
        assert finished(held("greedy", folders, weights)).outputs
    _room(monkeypatch, 2.5)
    assert finished(held("greedy", folders, ON_DISK)).outputs


def _room(monkeypatch, megabytes):
    room = dataclasses.replace(loading.SETTINGS, max_model_memory_gb=megabytes / 1000)
    monkeypatch.setattr("engine.models.sizes.SETTINGS", room)
