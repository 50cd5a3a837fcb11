"""A model of the hub at a branch, a tag or a commit: fetched, told apart, refused and exported."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from engine import DecodeRequest
from engine.errors import ParameterError
from engine.export.pipeline import short_pipeline_code
from engine.export.plan import plan_export
from engine.export.push import prepare_upload
from engine.export.script import script_text
from engine.export.short_script import short_code
from engine.models import loading as models
from engine.models.meta_model import describe_model
from engine.sources import hub_cache, source
from engine.sources.source import Source
from tests.helpers.hub import GOOD, SHA, asked, repository_at
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

OLD = "89abcdef0123456789abcdef0123456789abcdef"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Serve a repository with two commits; the tag v1 and the branch of a pull request name the older one."""
    older = tmp_path / "older"
    shutil.copytree(repository_at(tmp_path / GOOD), older)
    weights = load_file(older / "model.safetensors")
    save_file(
        {name: -value for name, value in weights.items()},
        older / "model.safetensors",
        metadata={"format": "pt"},
    )
    with asked(tmp_path, monkeypatch) as served:
        served.tags = {"v1": OLD, "refs/pr/1": OLD, OLD: OLD}
        served.states = {OLD: older}
        yield served


def request(model):
    return DecodeRequest("greedy", model, "Once", params={"max_new_tokens": 3})


def weight_of(name):
    return models.load(name).model.get_input_embeddings().weight


def test_each_revision_is_a_model_of_its_own(hub):
    newest, tagged = finished(request(GOOD)), finished(request(f"{GOOD}@v1"))
    assert (newest.model.id, newest.model.revision) == (GOOD, SHA)
    assert (tagged.model.id, tagged.model.revision) == (f"{GOOD}@v1", OLD)
    assert (weight_of(GOOD) == -weight_of(f"{GOOD}@v1")).all()
    assert describe_model(Source.parse(f"{GOOD}@v1")) == describe_model(Source.parse(GOOD))
    assert finished(request(f"{GOOD}@refs/pr/1")).model.revision == OLD
    asked = len(hub.asked)
    models._CACHE.clear()
    for name in (GOOD, f"{GOOD}@v1", f"{GOOD}@{OLD}"):
        finished(request(name))
    assert len(hub.asked) == asked, "what is on the machine was asked for again"


def test_a_commit_is_fetched_without_the_newest(hub):
    assert finished(request(f"{GOOD}@{OLD}")).model.revision == OLD
    assert Source.parse(GOOD).folder() is None
    assert not any(SHA in path for path in hub.asked)


def test_a_revision_that_was_removed(hub):
    text = clean(str(failed(request(f"{GOOD}@gone"))), most=300)
    assert text.startswith("someone/tiny has no revision gone on the hub: ")
    assert not hub_cache.repository_folder(constants.HF_HUB_CACHE, GOOD).exists()
    finished(request(f"{GOOD}@v1"))
    hub.tags = {}
    assert "has no revision v2" in str(failed(request(f"{GOOD}@v2")))
    models._CACHE.clear()
    # What was fetched before stays, also after another revision was refused.
    assert finished(request(f"{GOOD}@v1")).model.revision == OLD


@pytest.mark.parametrize(
    "name",
    [
        "a/b@",
        "a/b@/v1",
        "a/b@v1/",
        "a/b@..",
        "a/b@v1/../x",
        "a/b@v 1",
        "a@v1",
        "a/b@v1@v2",
        "a/b@v1\n",
    ],
)
def test_names_that_name_no_revision(name):
    assert not hub_cache.is_hub_id(name)
    assert "owner/name@revision" in clean(str(failed(request(name))), most=600)


def test_code_names_the_revision(hub):
    plan = plan_export(finished(request(f"{GOOD}@v1")))
    code = script_text(plan)
    assert f"MODEL = {GOOD!r}\nREVISION = {OLD!r}\n" in code
    assert f"AutoTokenizer.from_pretrained({GOOD!r}, revision='v1')" in short_code(plan)
    assert f"AutoModelForCausalLM.from_pretrained({GOOD!r}, revision='v1', " in short_code(plan)
    assert f"model={GOOD!r}, revision='v1', " in short_pipeline_code(plan)
    assert "revision='" not in short_code(plan_export(finished(request(GOOD))))


def test_a_public_deployment_offers_a_revision_only_by_its_full_name(hub, monkeypatch):
    settings = dataclasses.replace(source.SETTINGS, public=True, allowed_models=f"{GOOD}@v1")
    monkeypatch.setattr(source, "SETTINGS", settings)
    assert Source.parse(f"{GOOD}@v1").is_offered
    assert "is not offered here" in str(failed(request(f"{GOOD}@refs/pr/1")))
    assert "is not offered here" in str(failed(request(GOOD)))


def test_settings_are_uploaded_to_a_repository_and_no_revision():
    with pytest.raises(ParameterError, match="it must be a hub id like owner/name"):
        prepare_upload("{}", "owner/name@v1", "hf_token")
