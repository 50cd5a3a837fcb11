"""Models by hub id: what loads, what is refused before its weights come, and every way a hub fails."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
import time
from pathlib import Path

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from engine import DecodeRequest, decode
from engine.models import hub as hubs
from engine.models import loading as models
from engine.models import sizes
from engine.sources import source
from engine.sources.hub_cache import repository_folder
from engine.trace.events import Loading
from tests.helpers.hub import GOOD, SHA, asked, kept_files, repository_at
from tests.helpers.patience import comes_true
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

HTML = b"<!doctype html><title>Sign in to this network</title>"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return the folder of one good repository: a tiny model with a real tokenizer."""
    return repository_at(tmp_path_factory.mktemp("hub") / "good")


@pytest.fixture
def hub(tmp_path, repository, monkeypatch):
    """Serve a copy of the good repository as ``someone/tiny``; nothing else can be reached."""
    shutil.copytree(repository, tmp_path / GOOD)
    with asked(tmp_path, monkeypatch) as served:
        yield served


def request(model):
    return DecodeRequest("greedy", model, "Once", params={"max_new_tokens": 3})


def refusal(model):
    text = clean(str(failed(request(model))), most=300)
    assert "/tmp" not in text
    assert "127.0.0.1" not in text
    assert text.endswith(".")
    return text


def change_config(hub, **values):
    path = hub.folder / GOOD / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_hub_id_is_fetched_once_by_its_commit_and_never_with_code(hub):
    for name in ("modeling_evil.py", "pytorch_model.bin", "training_args.bin", "model.onnx"):
        (hub.folder / GOOD / name).write_bytes(b"never")
    trace = finished(request(GOOD))
    assert trace.model.id == GOOD
    assert trace.model.revision == SHA
    wanted = {"config.json", "generation_config.json", "model.safetensors"}
    assert set(hub.files()) == wanted | {"tokenizer.json", "tokenizer_config.json"}
    asked = sum(GOOD in path for path in hub.asked)
    models._CACHE.clear()
    assert finished(request(GOOD)).outputs == trace.outputs
    assert sum(GOOD in path for path in hub.asked) == asked, (
        "what is on the machine was asked for again"
    )


def test_a_repositorys_own_defaults_are_never_inherited(hub):
    plain = finished(request(GOOD))
    path = hub.folder / GOOD / "generation_config.json"
    own = {"suppress_tokens": list(plain.outputs[0].token_ids), "max_new_tokens": 1}
    path.write_text(json.dumps({**json.loads(path.read_text()), **own}))
    shutil.rmtree(constants.HF_HUB_CACHE)
    models._CACHE.clear()
    assert finished(request(GOOD)).outputs == plain.outputs


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("status", "headers", "says"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "does not exist on the hub, or is private"),
        (401, {}, "does not exist on the hub, or is private"),
        (403, {"X-Error-Code": "GatedRepo"}, "is gated: ask for access"),
        (401, {"X-Error-Code": "GatedRepo"}, "is gated: ask for access"),
        (403, {}, "The hub answered 403"),
        (429, {}, "The hub answered 429"),
        (500, {}, "The hub answered 500"),
        (200, {"Content-Type": "text/html"}, "cannot be reached"),
    ],
)
def test_a_hub_that_refuses_or_fails(hub, status, headers, says):
    hub.faults[GOOD] = (status, headers, HTML)
    assert says in refusal(GOOD)
    assert len(hub.asked) < 12
    hub.faults.clear()
    assert finished(request(GOOD)).steps, "the next try must work"


def test_a_hub_that_never_answers_or_is_not_there(hub, monkeypatch):
    # No answer comes at all: any limit is reached, and without one the test hangs.
    monkeypatch.setattr(hubs, "PROBE_S", 1)
    hub.stall = True
    assert "cannot be reached" in refusal(GOOD)
    assert hub.asked
    hub.stall = False
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "cannot be reached" in refusal(GOOD)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "the hub is switched off" in refusal(GOOD)


def test_a_repository_of_pickles_is_refused_and_nothing_of_it_is_fetched(hub):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was opened",))

    folder = hub.folder / GOOD
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    assert "no safetensors weights" in refusal(GOOD)
    assert hub.files() == []


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"auto_map": {"AutoConfig": "evil.Evil"}, "model_type": "evil"}, "auto_map"),
        ({"auto_map": {"AutoModelForCausalLM": "evil.Evil"}, "model_type": []}, "auto_map"),
        ({"_attn_implementation": "evil/kernel"}, "_attn_implementation"),
        ({"num_hidden_layers": 100_000}, "num_hidden_layers = 100000"),
        ({"num_hidden_layers": -1}, "num_hidden_layers = -1"),
        ({"num_attention_heads": 0}, "num_attention_heads = 0"),
        ({"vocab_size": 60_000_000}, "vocab_size = 60000000"),
        ({"hidden_size": "8"}, "hidden_size = '8'"),
    ],
    ids=str,
)
def test_a_config_that_asks_too_much_is_refused_before_the_weights_come(hub, values, says):
    change_config(hub, **values)
    assert says in refusal(GOOD)
    assert "model.safetensors" not in hub.files()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("content", [b"[1]", b"{", b"", b"[" * 90_000, b"\xff"], ids=range(5))
def test_a_config_that_is_none(hub, content):
    (hub.folder / GOOD / "config.json").write_bytes(content)
    assert "config.json is not valid" in refusal(GOOD)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"model_type": "evil"}, "config.json has model_type = 'evil', which transformers cannot"),
        ({"vocab_size": 4000}, "does not fit its config.json"),
        ({"num_hidden_layers": 2}, "lacks the weights"),
        # One by one nothing is too large; all together they would take 14 GB.
        ({"num_hidden_layers": 100, "hidden_size": 3000, "num_attention_heads": 1}, "describes"),
    ],
    ids=str,
)
def test_weights_and_config_that_do_not_fit_together(hub, values, says):
    change_config(hub, **values)
    assert says in refusal(GOOD)


def test_damaged_weights(hub):
    path = hub.folder / GOOD / "model.safetensors"
    whole = path.read_bytes()
    for broken in (whole[:-40], b"\x00" * 64, b"\xff" * 8 + whole[8:], b""):
        path.write_bytes(broken)
        assert GOOD in refusal(GOOD)
        shutil.rmtree(constants.HF_HUB_CACHE)
    tensors = load_file_of(whole, path)
    tensors.pop("model.norm.weight")
    save_file(tensors, path, metadata={"format": "pt"})
    assert "lacks the weights 'model.norm.weight'" in refusal(GOOD)


def load_file_of(data, path):
    path.write_bytes(data)
    return load_file(path)


def test_a_public_space_loads_no_folders(hub, monkeypatch):
    folder = str((hub.folder / GOOD).resolve())
    assert finished(request(folder)).steps
    public = dataclasses.replace(source.SETTINGS, public=True)
    monkeypatch.setattr(source, "SETTINGS", public)
    models._CACHE.clear()
    assert "must be a name of the catalogue" in str(failed(request(folder)))


def kept_models():
    return {path.name for path in Path(constants.HF_HUB_CACHE).glob("models--*")}


@pytest.mark.nightly
@pytest.mark.parametrize("public", [True, False])
def test_a_space_keeps_the_models_of_late_within_its_budget(hub, monkeypatch, public):
    names = [f"someone/{word}" for word in ("first", "second", "third")]
    for name in names:
        shutil.copytree(hub.folder / GOOD, hub.folder / name)
    size = sum(p.stat().st_size for p in (hub.folder / GOOD).iterdir())
    settings = dataclasses.replace(
        hubs.SETTINGS, public=public, allowed_models=" ".join(names), max_hub_gb=2.5 * size / 1e9
    )
    monkeypatch.setattr(hubs, "SETTINGS", settings)
    for name in names[:2]:
        hubs.fetch_snapshot(source.Hub(name))
    assert len(kept_models()) == 2
    # The second is the one that was not used of late.
    now = time.time()
    for age, name in ((10, names[0]), (1000, names[1])):
        for path in Path(constants.HF_HUB_CACHE).glob(f"models--{name.replace('/', '--')}/blobs/*"):
            os.utime(path, (now - age, now - age))
    hubs.fetch_snapshot(source.Hub(names[2]))
    gone = {"models--someone--second"} if public else set()
    assert kept_models() == {f"models--{n.replace('/', '--')}" for n in names} - gone


@pytest.fixture
def dripping(hub):
    """Serve weights that never come whole; return the hub."""
    hub.drips = {"model.safetensors"}
    return hub


def begun(hub):
    """Start a run whose weights are coming now, and of whose size the run has been told; return it."""
    run = decode(request(GOOD))
    told = next(event for event in run if not isinstance(event, Loading) or event.total)
    assert isinstance(told, Loading), told
    comes_true(lambda: "model.safetensors" in hub.files())
    return run


def test_a_slow_download_keeps_nobody_from_running(dripping):
    slow = begun(dripping)
    assert finished(request("storyteller")).steps, "a model that was not loaded before"
    assert finished(request("storyteller")).steps, "a model that is loaded"
    slow.cancel()
    assert "Stopped" in str([*slow][-1].error)
    comes_true(lambda: not hubs._DOWNLOADS.active)
    comes_true(nothing_is_found)
    dripping.drips.clear()
    assert finished(request(GOOD)).steps


def nothing_is_found():
    """Return whether nothing is on this machine that any program would take for the model's weights."""
    folder = repository_folder(constants.HF_HUB_CACHE, GOOD)
    return source.Source.parse(GOOD).folder() is None and not [
        path for path in kept_files(folder) if path.endswith(".safetensors")
    ]


def test_two_who_want_one_model_share_one_download(hub):
    hub.drips = {"model.safetensors"}
    first, second = begun(hub), decode(request(GOOD))
    comes_true(lambda: hubs._DOWNLOADS.active[GOOD].waiting == 2)
    second.cancel()
    assert "Stopped" in str([*second][-1].error)
    assert hubs._DOWNLOADS.active[GOOD].waiting == 1, "somebody still waits for it"
    assert hub.files().count("model.safetensors") <= 2  # HEAD and GET
    first.cancel()
    assert "Stopped" in str([*first][-1].error)
    comes_true(lambda: not hubs._DOWNLOADS.active)


def test_a_download_has_a_time_and_leaves_nothing_to_be_found(dripping, monkeypatch):
    change_settings(monkeypatch, load_timeout_s=4.0)
    assert "did not arrive within 4 s" in refusal(GOOD)
    comes_true(nothing_is_found)
    assert not hubs._DOWNLOADS.active


def change_settings(monkeypatch, **values):
    for module in (hubs, source, sizes):
        monkeypatch.setattr(module, "SETTINGS", dataclasses.replace(module.SETTINGS, **values))


def test_as_many_downloads_as_are_allowed_and_no_more(dripping, monkeypatch):
    change_settings(monkeypatch, max_downloads=1)
    slow = begun(dripping)
    assert "1 models are being fetched" in refusal("someone/other")
    slow.cancel()
    assert [*slow]


def test_a_repository_larger_than_its_room_is_refused_before_anything_comes(hub, monkeypatch):
    change_settings(monkeypatch, max_model_files_gb=0.001)
    assert "there is room for 0.00 GB" in refusal(GOOD)
    assert not hub.files()


@pytest.mark.parametrize(
    "values",
    [
        {"vocab_size": 1_000_000, "hidden_size": 32_768},
        {"intermediate_size": 2_000_000_000},
        {"num_hidden_layers": 200, "hidden_size": 32_768, "num_experts": 100_000},
        {"text_config": {"vocab_size": 1_000_000, "hidden_size": 32_768}},
    ],
    ids=str,
)
def test_a_config_whose_sizes_are_no_bomb_one_by_one(hub, values):
    change_config(hub, **values)
    assert "more than its weights" in refusal(GOOD)
    assert "model.safetensors" not in hub.files()
    # The same in a folder, where nothing has to be fetched.
    folder = str((hub.folder / GOOD).resolve())
    assert "more than its weights" in str(failed(request(folder)))


def test_a_model_that_has_no_room_in_memory(hub, monkeypatch):
    change_settings(monkeypatch, max_model_memory_gb=1e-6)
    assert "GB of memory as float32" in refusal(GOOD)


@pytest.mark.parametrize("where", ["environment", "file"])
def test_a_token_of_the_owner_is_spent_for_the_owner_alone(hub, monkeypatch, tmp_path, where):
    if where == "environment":
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
    else:
        home = tmp_path / "home"
        home.mkdir()
        (home / "token").write_text("hf_secret")
        monkeypatch.setenv("HF_HOME", str(home))
    finished(request(GOOD))
    assert "Bearer hf_secret" in hub.tokens
    for name in ("HF_HUB_CACHE",):
        shutil.rmtree(getattr(constants, name))
    models._CACHE.clear()
    hub.tokens.clear()
    change_settings(monkeypatch, public=True, allowed_models=f"{GOOD} someone/other")
    finished(request(GOOD))
    assert hub.asked
    assert not hub.tokens


def test_a_public_deployment_offers_the_models_of_its_list(hub, monkeypatch):
    change_settings(monkeypatch, public=True, allowed_models="someone/other")
    text = refusal(GOOD)
    assert "is not offered here: of the hub's models, these are: someone/other." in text
    assert not hub.asked
