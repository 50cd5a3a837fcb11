"""A GGUF file as a model: converted once, then a folder like any other, and every way it can be wrong."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import shutil
import threading
from importlib.metadata import PackageNotFoundError

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine import DecodeRequest, decode
from engine.declare.weights import WeightsParams
from engine.errors import Cancelled, ExportError, ModelError
from engine.export.plan import plan_export
from engine.export.script import script_text
from engine.models import build_cache, gguf_conversion, subprocess_job
from engine.models import loading as models
from engine.models.gguf_conversion import ensure_gguf_converted
from engine.models.meta_model import describe_model
from engine.run.preflight import preflight
from engine.sources import catalogue, source
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.trace.events import Loading
from tests.helpers.packages import make_gguf
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    make_gguf(path)
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the folder of what is made of GGUF files, an empty one."""
    folder = tmp_path / "models"
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(folder))
    monkeypatch.setattr(catalogue, "SETTINGS", settings)
    monkeypatch.setattr(models, "_CACHE", type(models._CACHE)())
    return folder / "made"


@pytest.fixture
def path(original, tmp_path):
    copy = tmp_path / "files" / "tiny.gguf"
    copy.parent.mkdir()
    shutil.copyfile(original, copy)
    return copy


def request(path):
    return DecodeRequest("greedy", str(path), "the", params={"max_new_tokens": 4})


def sum_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refusal(path, home):
    """Return the sentence for a file, of which nothing stays."""
    with pytest.raises(ModelError) as caught:
        ensure_gguf_converted(Source.parse(str(path)))
    assert not list(home.glob("*"))
    assert not list(home.glob(".*"))
    return clean(str(caught.value), most=400)


def test_a_file_is_converted_once_and_then_a_folder(path, home, monkeypatch):
    # What lies beside a file is not the file's.
    (path.parent / "config.json").write_text('{"model_type": "gpt2"}')
    (path.parent / "tokenizer_config.json").write_text("{}")
    assert describe_model(Source.parse(str(path))) is None, "nothing is claimed before it is read"
    events = list(decode(request(path)))
    told = [event for event in events if isinstance(event, Loading)]
    size = path.stat().st_size
    assert {event.model for event in told} == {str(path)}
    assert (size, size) in [(event.got, event.total) for event in told]
    trace = events[-1].trace
    assert (trace.model.id, trace.model.revision) == (str(path), sum_of(path))
    reference = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    loaded = models.load(str(path))
    for name, value in reference.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value), name
    ids = torch.tensor([trace.prompt_ids])
    expected = reference.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
    assert list(trace.outputs[0].token_ids) == expected.tolist()
    assert describe_model(Source.parse(str(path))) == loaded.capabilities
    models._CACHE.clear()
    monkeypatch.setattr(build_cache, "run_job", None)
    again = finished(request(path))
    assert again.model == trace.model
    beam = DecodeRequest("beam_search", str(path), "the", params={"max_new_tokens": 3})
    assert finished(beam).model == trace.model


@pytest.mark.nightly
def test_a_changed_file_is_converted_again(path, home, original):
    first = finished(request(path)).model.revision
    data = bytearray(path.read_bytes())
    data[-8:] = bytes(8)
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = finished(request(path)).model.revision
    assert first != second == sum_of(path)
    assert models.find_loaded_model(str(path), second) is not None
    # The same content under another name is not converted again.
    folder = home / second
    written = (folder / "config.json").stat().st_mtime_ns
    other = path.with_name("other.gguf")
    path.rename(other)
    assert ensure_gguf_converted(Source.parse(str(other))) == (str(folder), second)
    assert (folder / "config.json").stat().st_mtime_ns == written
    with pytest.raises(ModelError, match="is not allowed"):
        Source.parse(str(path))


@pytest.mark.nightly
def test_the_exported_code_loads_what_was_made(path, home):
    trace = finished(request(path))
    code = script_text(plan_export(trace))
    assert f"MODEL = {str(home / trace.model.revision)!r}" in code
    unknown = dataclasses.replace(
        trace, model=dataclasses.replace(trace.model, revision="../../elsewhere")
    )
    with pytest.raises(ExportError, match="has no sha256"):
        plan_export(unknown)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) * 2 // 3], "the file is damaged or was cut off."),
        (lambda data: data[:60], "the file is damaged or was cut off."),
        (lambda data: data.replace(b"llama", b"zzama"), "architecture zzama is not supported yet."),
        (
            lambda data: data.replace(b"blk.0.ffn_up", b"blk.0.ffn_zp"),
            "it lacks the weights model.layers.0.mlp.up_proj.weight.",
        ),
    ],
)
def test_a_file_that_cannot_be_used(path, home, damage, said):
    path.write_bytes(damage(path.read_bytes()))
    sentence = refusal(path, home)
    assert sentence.startswith("tiny.gguf could not be converted: ")
    assert sentence.endswith(said)


@pytest.mark.nightly
def test_a_file_is_recognised_by_its_header_before_and_after_it_is_converted(path, home):
    (path.parent / "config.json").write_text('{"model_type": "gpt2"}')
    before = preflight(Source.parse(str(path)), WeightsParams(dtype="float32"))
    assert not home.exists(), "nothing is converted"
    assert (before.where, before.revision, before.chat_template) == ("unmade", None, True)
    assert before.gguf.types == {"F32": 1.0}
    assert (
        "GGUF file",
        f"llama, {path.stat().st_size / 1e6:.1f} MB, 100 % F32",
    ) in before.to_pairs()
    ensure_gguf_converted(Source.parse(str(path)))
    after = preflight(Source.parse(str(path)), WeightsParams(dtype="float32"))
    assert (after.where, after.revision) == ("here", sum_of(path))
    same = ("gguf", "architecture", "model_type", "context_length", "cannot_serve", "parameters")
    for field in (*same, "memory_bytes", "chat_template"):
        assert getattr(before, field) == getattr(after, field), field
    path.write_bytes(path.read_bytes().replace(b"llama", b"zzama"))
    told = preflight(Source.parse(str(path)))
    assert told.gguf.architecture == "zzama"
    assert set(told.cannot_serve) == set(STRATEGIES)
    assert "zzama" in clean(told.notes[0])
    path.write_bytes(path.read_bytes()[:60])
    assert preflight(Source.parse(str(path))).notes == (
        "tiny.gguf could not be read: the file is damaged or was cut off.",
    )


def test_without_the_package_one_sentence_says_how_to_get_it(path, home, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(subprocess_job, "version", missing)
    assert "-r requirements-models.txt brings it" in refusal(path, home)


def test_a_full_disk(path, home, monkeypatch):
    def full(*given, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(build_cache, "run_job", full)
    assert refusal(path, home).startswith("The disk has no space left for ")


def test_too_large_for_memory_or_disk(tmp_path):
    most = int(gguf_conversion.SETTINGS.max_model_memory_gb * 1e9)
    with pytest.raises(ModelError, match=r"it needs .* GB of memory as bfloat16"):
        gguf_conversion.check_resources(most, str(tmp_path), "float32")
    free = shutil.disk_usage(tmp_path).free
    values = most // 4
    if free >= values * 4:
        gguf_conversion.check_resources(values, str(tmp_path), "float32")
    else:
        with pytest.raises(OSError, match="No space left"):
            gguf_conversion.check_resources(values, str(tmp_path), "float32")


def test_a_visitor_who_stops_waits_no_longer(path, home):
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Cancelled):
        ensure_gguf_converted(Source.parse(str(path)), stopped)
    assert not list(home.glob("*"))


def test_names_that_are_no_gguf_file(path, home, monkeypatch):
    fake = path.with_name("fake.gguf")
    fake.write_bytes(b"PK" + bytes(50))
    for name in (str(fake), str(path.with_name("none.gguf")), "tiny.gguf", "/a\0b.gguf"):
        assert "a model folder, a GGUF file or a LoRA adapter" in str(failed(request(name)))
    settings = dataclasses.replace(source.SETTINGS, public=True)
    monkeypatch.setattr(source, "SETTINGS", settings)
    assert Source.find(str(path)) is None
    assert "is not allowed" in str(failed(request(path)))
