"""What a model is and costs is told before anything large is fetched or loaded."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from engine.cli.main import main
from engine.declare.weights import WeightsParams
from engine.errors import EngineError
from engine.models import hub as hubs
from engine.models import hub_lookup, loading, sizes
from engine.models.readers import SpeechChoices
from engine.run import preflight as flights
from engine.run.preflight import preflight
from engine.sources import name_errors, source
from engine.sources.catalogue import MODEL_DIR
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from tests.helpers.hub import SHA, serving
from tests.helpers.patience import PATIENCE_S
from tests.helpers.seers import LANGUAGES, TASKS, listener
from tests.helpers.sentences import clean

NAME = "someone/tiny"
STORY = MODEL_DIR / "storyteller-draft"
"""The repository that is served, a real model with its card."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    shutil.copytree(STORY, tmp_path / NAME)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    # This hub answers, however late.
    monkeypatch.setattr(hubs, "PROBE_S", int(PATIENCE_S))
    monkeypatch.setattr(hub_lookup, "LOOKUP_TIMEOUT_S", PATIENCE_S)
    with serving(tmp_path) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        yield served


def limited(monkeypatch, **limits):
    """Set limits for whatever of the engine is asked."""
    for module in (flights, hubs, sizes, source, name_errors, flights.model_weights):
        settings = dataclasses.replace(module.SETTINGS, **limits)
        monkeypatch.setattr(module, "SETTINGS", settings)


def refused(name, **held):
    with pytest.raises(EngineError) as caught:
        preflight(Source.parse(name), WeightsParams(**held))
    text = clean(str(caught.value), most=300)
    assert "127.0.0.1" not in text
    return text


def unloaded(monkeypatch):
    """Let nothing read weights."""

    def never(*given):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(loading, "_load_model", never)


def test_an_embedded_model_is_reported_as_it_would_be_loaded(monkeypatch):
    loaded = loading.load("storyfixer")
    unloaded(monkeypatch)
    found = preflight(Source.parse("storyfixer"), WeightsParams(dtype="float32"))
    assert (found.where, found.licence, found.chat_template) == ("embedded", "Apache-2.0", False)
    assert (found.model_type, found.architecture) == ("t5", "T5ForConditionalGeneration")
    assert found.memory_bytes == loaded.memory_bytes()
    assert found.parameters == sum(p.numel() for p in loaded.model.parameters())
    assert set(found.cannot_serve) == {
        "dola",
        "speculative",
        "early_exit",
        "mtp",
        "masked_diffusion",
        "universal_assisted",
    }
    assert found.fits
    assert not found.notes


def test_a_folder_names_its_licence_and_its_template(tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(STORY, folder)
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace("apache-2.0", "cc-by-4.0"))
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    found = preflight(Source.parse(str(folder)), WeightsParams(dtype="bfloat16"))
    assert (found.where, found.licence, found.chat_template) == ("here", "cc-by-4.0", True)
    assert found.memory_bytes == 2 * found.parameters
    assert found.context_length == json.loads((folder / "config.json").read_text()).get(
        "max_position_embeddings"
    )
    (folder / "README.md").write_text("---\nlicense: [\n---\n")
    (folder / "config.json").write_text("{")
    broken = preflight(Source.parse(str(folder)))
    assert broken.licence is None
    assert broken.notes == ("The model's config.json is not valid.",)
    assert set(broken.cannot_serve) == set(STRATEGIES)


def test_of_the_hub_only_small_files_come_and_nothing_stays(hub):
    hub.about[NAME] = {"cardData": {"license": "mit"}, "private": False}
    found = preflight(Source.parse(NAME), WeightsParams(dtype="float32"))
    assert set(hub.files()) == {"config.json", "tokenizer_config.json", "generation_config.json"}
    assert not Path(constants.HF_HUB_CACHE).exists()
    own = preflight(Source.parse("storyteller-draft"), WeightsParams(dtype="float32"))
    same = ("model_type", "architecture", "parameters", "memory_bytes", "context_length")
    for field in (*same, "disk_bytes", "chat_template"):
        assert getattr(found, field) == getattr(own, field), field
    # The sentences name the model.
    assert set(found.cannot_serve) == set(own.cannot_serve)
    assert (found.where, found.revision, found.licence) == ("hub", SHA, "mit")
    assert (found.gated, found.private) == (False, False)
    assert found.fits


def test_a_gated_model_is_described_as_far_as_the_hub_says(hub):
    hub.about[NAME] = {"gated": "manual", "safetensors": {"parameters": {"F32": 7}, "total": 7}}
    found = preflight(Source.parse(NAME))
    assert found.gated
    assert found.parameters == 7
    assert found.disk_bytes > 1_000_000
    assert found.cannot_serve is None
    assert found.fits is None
    assert found.notes == (f"{NAME} is gated: ask for access on its hub page first.",)


def test_what_does_not_fit_says_what_would(hub, monkeypatch):
    limited(monkeypatch, max_model_memory_gb=0.004, max_model_files_gb=0.001)
    found = preflight(Source.parse(NAME), WeightsParams(dtype="float32"))
    assert found.fits is False
    disk, memory = found.notes
    assert disk == f"{NAME} has 0.00 GB of files, and there is room for 0.00 GB here."
    assert "6.9 MB as float32, and 0.004 GB are for models here: bfloat16 would fit (3.5 MB)." in (
        memory
    )
    limited(monkeypatch, max_model_memory_gb=0.0001)
    assert preflight(Source.parse(NAME)).notes[-1].endswith("No available number format would fit.")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            (401, {"X-Error-Code": "RepoNotFound"}, b"{}"),
            "does not exist on the hub, or is private",
        ),
        ((503, {}, b""), "The hub answered 503"),
        ((200, {}, b"<!doctype html>"), "the hub cannot be reached"),
    ],
)
def test_a_hub_that_does_not_tell_is_one_sentence(hub, fault, says):
    hub.faults[NAME] = fault
    assert says in refused(NAME)


def test_no_network_no_answer_and_no_room_to_ask(hub, monkeypatch):
    assert "does not exist on the hub" in refused("someone/else")
    hub.stall = True
    monkeypatch.setattr(hub_lookup, "LOOKUP_TIMEOUT_S", 0.5)
    assert "did not answer" in refused(NAME)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub_lookup, "LOOKUP_TIMEOUT_S", PATIENCE_S)
    assert "the hub cannot be reached" in refused(NAME)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "the hub is switched off" in refused(NAME)


def test_a_model_without_safe_weights_says_so(hub):
    (hub.folder / NAME / "model.safetensors").unlink()
    found = preflight(Source.parse(NAME))
    assert found.notes == (flights.files.NO_WEIGHTS_MESSAGE,)
    assert set(found.cannot_serve) == set(STRATEGIES)


def test_a_public_deployment_asks_only_about_what_it_offers_and_without_a_token(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    preflight(Source.parse(NAME))
    assert hub.tokens == {"Bearer hf_secret"}
    hub.tokens.clear()
    limited(monkeypatch, public=True, allowed_models=NAME)
    assert preflight(Source.parse(NAME)).where == "hub"
    assert not hub.tokens
    asked = len(hub.asked)
    assert "is not offered here" in refused("someone/else")
    assert "a hub id like owner/name" in refused(str(hub.folder / NAME))
    assert "dtype" in refused(NAME, dtype="float16")
    assert len(hub.asked) == asked


def test_the_command_line_tells_it_in_lines_or_as_json(capsys):
    assert main(["about", "storyteller", "--dtype", "bfloat16"]) == 0
    said = capsys.readouterr().out
    assert "24.1 MB as bfloat16" in said
    assert f"all {len(STRATEGIES)} can use it" in said
    assert main(["about", "storyteller", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == preflight(Source.parse("storyteller")).to_dict()
    assert main(["about", "nonsense"]) == 2
    clean(capsys.readouterr().err.strip(), most=400)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("fields", "languages", "tasks", "timestamps"),
    [
        ("{", (), (), False),
        ({}, (), (), False),
        ({"no_timestamps_token_id": 7}, (), (), True),
        ({"lang_to_id": {"<|en|>": 1, "<|de|>": 2}}, ("en", "de"), (), False),
        ({"lang_to_id": {"<|en|>": 1}, "is_multilingual": False}, (), (), False),
        ({"lang_to_id": {"": 1, "x" * 40: 2, "<|yue|>": 3}}, ("yue",), (), False),
        ({"task_to_id": {"translate": 1, "sing": 2}}, (), ("translate",), False),
        ({"lang_to_id": ["en"], "task_to_id": "transcribe"}, (), (), False),
    ],
)
def test_what_a_speech_model_accepts_is_read_of_its_file_whatever_is_there(
    tmp_path, fields, languages, tasks, timestamps
):
    folder = listener(tmp_path)
    text = fields if isinstance(fields, str) else json.dumps(fields)
    (tmp_path / "generation_config.json").write_text(text)
    found = preflight(Source.parse(folder))
    assert found.takes == ("audio",)
    assert found.speech == SpeechChoices(languages, tasks, timestamps, seconds=30)
    for window, seconds in ((10, 10), ("x", None), (-1, None)):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps({"chunk_length": window}))
        assert preflight(Source.parse(folder)).speech.seconds == seconds
    assert preflight(Source.parse("storyteller-draft")).speech is None


def test_a_speech_model_whose_settings_are_no_object_is_refused(tmp_path):
    folder = listener(tmp_path)
    (tmp_path / "generation_config.json").write_text("[]")
    found = preflight(Source.parse(folder))
    assert "generation_config.json is not valid" in found.cannot_serve["greedy"]


def test_of_a_speech_model_of_the_hub_the_same_is_reported_before_it_is_fetched(hub, tmp_path):
    folder = tmp_path / "someone" / "ears"
    listener(folder, LANGUAGES, TASKS, times=True)
    found = preflight(Source.parse("someone/ears"))
    assert found.where == "hub"
    # The file that says how much it hears is not brought.
    assert found.speech == dataclasses.replace(
        preflight(Source.parse(str(folder))).speech, seconds=None
    )
    assert set(found.speech.languages) == set(LANGUAGES)
    assert found.to_dict()["speech"]["timestamps"] is True
