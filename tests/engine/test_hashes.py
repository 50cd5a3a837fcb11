"""The embedded models are what was shipped."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from engine import DecodeRequest
from engine.errors import ModelError
from engine.models import hashes, loading
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.runs import failed


def test_every_file_of_every_embedded_model_has_its_sum():
    files = {
        path.relative_to(MODEL_DIR).as_posix()
        for end in ("json", "safetensors")
        for path in MODEL_DIR.glob(f"*/*.{end}")
    }
    assert files
    assert set(hashes.read_checksums()) == files
    for name in {path.partition("/")[0] for path in files}:
        hashes.check_embedded_files(name)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_one_bit_that_is_another_is_noticed(tmp_path, file):
    shutil.copytree(MODEL_DIR / "foreign-draft", tmp_path / "foreign-draft")
    shutil.copy(MODEL_DIR / hashes.CHECKSUMS_FILE, tmp_path)
    hashes.check_embedded_files("foreign-draft", tmp_path)
    path = tmp_path / "foreign-draft" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"damaged: {file} is not the file that was shipped"):
        hashes.check_embedded_files("foreign-draft", tmp_path)
    path.unlink()
    with pytest.raises(ModelError, match="is not the file that was shipped"):
        hashes.check_embedded_files("foreign-draft", tmp_path)


def test_a_damaged_model_is_not_loaded(monkeypatch):
    def damaged(name):
        raise ModelError(f"The embedded model {name} is damaged.")

    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    monkeypatch.setattr(loading, "hashes", SimpleNamespace(check_embedded_files=damaged))
    error = failed(DecodeRequest("greedy", "foreign-draft", "Once", params={"max_new_tokens": 2}))
    assert str(error) == "The embedded model foreign-draft is damaged."
