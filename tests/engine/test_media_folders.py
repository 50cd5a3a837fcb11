"""Models that look or listen, from a folder as transformers writes it: loaded, described, exported and checked."""

from __future__ import annotations

import json

import pytest

from engine import DecodeRequest, load
from engine.errors import ExportError, ModelError
from engine.export.files import export_files
from engine.export.verify import verify_export
from engine.models.meta_model import describe_model
from engine.run.media_request import load_media_fields
from engine.sources.source import Source
from tests.helpers.media_models import KINDS, given, media_model, saved, wave
from tests.helpers.runs import failed, finished, reread
from tests.helpers.sentences import clean

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: saved(name, tmp_path_factory.mktemp(name)) for name in KINDS}


def asked(model, name, strategy="greedy", **params):
    speech = {"language": "en", "task": "transcribe"} if name == "whisper" else {}
    params = {"max_new_tokens": 8, **params}
    prompt = KINDS[name].prompt
    return DecodeRequest(
        strategy, model, prompt=prompt, params=params, speech=speech, **given(name)
    )


@pytest.mark.by_day("llava", "speech2text")
@pytest.mark.parametrize("name", KINDS)
def test_a_folder_gives_the_tokens_of_the_model_it_holds(name, folders):
    assert describe_model(Source.parse(folders[name])).takes == {KINDS[name].given}
    trace = finished(asked(folders[name], name))
    own = finished(asked(media_model(name), name))
    assert trace.outputs[0].token_ids == own.outputs[0].token_ids
    assert trace.prompt_ids == own.prompt_ids


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        *((name, "greedy") for name in KINDS),
        *((name, "beam_search") for name in ("vit-gpt2", "llava")),
        *((name, "contrastive_search") for name in ("blip", "git", "whisper")),
    ],
)
def test_exported_code_gives_the_same_tokens(name, strategy, folders):
    params = {"num_beams": 3} if strategy == "beam_search" else {}
    trace = reread(asked(folders[name], name, strategy, **params))
    if name == "whisper" and strategy == "contrastive_search":
        with pytest.raises(ExportError, match="its own"):
            export_files(trace)
        return
    found = verify_export(trace)
    assert found.equal, found.message


@pytest.mark.parametrize("name", KINDS)
def test_the_code_in_short_is_python_that_names_the_file(name, folders):
    script = export_files(reread(asked(folders[name], name)))["run.py"]
    compile(script, "run.py", "exec")
    assert script.count("picture.png" if KINDS[name].given == "image" else "sound.wav") >= 2
    assert "in_short" in script


def test_the_code_in_short_tells_a_speech_model_what_it_was_given(folders):
    script = export_files(reread(asked(folders["whisper"], "whisper")))["run.py"]
    [call] = [line for line in script.splitlines() if "out = model.generate(" in line]
    assert call.endswith(", language='en', task='transcribe')")


def test_a_sound_that_is_longer_than_the_models_own_window_is_refused(tmp_path):
    folder = saved("whisper", tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "chunk_length": 2}))
    request = DecodeRequest("greedy", folder, audio=wave(seconds=3.0))
    said = (
        f"audio = '3 seconds' is not allowed: {folder} hears up to 2 seconds; give a shorter one."
    )
    assert str(failed(request)) == said


def test_a_folder_without_its_preprocessor_says_what_is_missing(tmp_path):
    folder = saved("vit-gpt2", tmp_path)
    for name in ("preprocessor_config.json", "processor_config.json"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(ModelError) as caught:
        load(folder)
    assert "preprocessor_config.json" in clean(str(caught.value))


def test_a_preprocessor_that_is_none_is_refused(tmp_path):
    folder = saved("vit-gpt2", tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_processor_type": "Nonsense"}')
    error = failed(asked(folder, "vit-gpt2"))
    assert isinstance(error, ModelError)
    clean(str(error))


def test_a_trace_whose_picture_is_gone_says_so(folders, monkeypatch):
    from engine.errors import EngineError
    from engine.media import media_cache

    trace = reread(asked(folders["git"], "git"))
    assert load_media_fields(trace)["image"].sha256 == trace.media[0].sha256
    monkeypatch.setattr(media_cache, "MEDIA_CACHE", media_cache.MediaCache(1, 1))
    with pytest.raises(EngineError) as caught:
        load_media_fields(trace)
    assert "give it again" in clean(str(caught.value))


def test_weights_are_what_the_described_model_says(folders):
    loaded = load(folders["blip"])
    whole = sum(p.numel() for p in media_model("blip")._whole.parameters())
    assert loaded.memory_bytes() == 4 * whole
