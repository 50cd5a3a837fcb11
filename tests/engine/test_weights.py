"""What the files of a model's weights say, and what is made of it before any of them is read."""

from __future__ import annotations

import json
import pickle
import shutil

import pytest
from transformers import AutoModelForCausalLM

from engine import DecodeRequest
from engine.models import loading, meta_model
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.models import tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a tiny model with a real tokenizer."""
    folder = tmp_path / "tiny"
    tiny_llama(1, vocab_size=4096, eos_token_id=0, seed=0).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL_DIR / "storyteller" / name, folder)
    return folder


def request(folder):
    return DecodeRequest("greedy", str(folder), "Once", params={"max_new_tokens": 3})


def refusal(folder):
    return clean(str(failed(request(folder))), most=400)


@pytest.mark.parametrize(
    "named",
    ["../other.safetensors", "/etc/passwd", "model.bin", "a/b.safetensors", "", 5, None, ["x"]],
    ids=str,
)
def test_an_index_names_nothing_but_the_files_next_to_it(folder, named):
    (folder / "model.bin").write_bytes(pickle.dumps("never"))
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": {"model.norm.weight": named}})
    )
    text = refusal(folder)
    assert "no safetensors file in the same folder" in text or "is not valid" in text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": []}', "[" * 100_000])
def test_a_damaged_index(folder, content):
    (folder / "model.safetensors.index.json").write_text(content)
    assert "index.json is not valid" in refusal(folder)


def test_no_memory_is_not_called_a_damaged_file(folder, monkeypatch):
    def no_room(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", no_room)
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    assert refusal(folder) == f"{folder} needs more memory than there is here."


def test_a_bomb_is_built_once_and_then_refused_at_once(folder, monkeypatch):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "num_hidden_layers": 40, "hidden_size": 3000}))
    built = []
    original = meta_model.build_from_config
    monkeypatch.setattr(
        meta_model, "build_from_config", lambda *given: built.append(given) or original(*given)
    )
    first = refusal(folder)
    assert "values, and its weights hold" in first
    assert refusal(folder) == first
    assert len(built) == 1
    # Other files are looked at anew.
    path.write_text(json.dumps(config))
    assert finished(request(folder)).steps
