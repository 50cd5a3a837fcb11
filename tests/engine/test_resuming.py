"""A model of many bytes, brought over a bad line: gone on with, shared, refused, and never taken for whole."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from huggingface_hub import constants
from transformers import AutoModelForCausalLM

from engine import DecodeRequest, decode
from engine.models import hub as hubs
from engine.models import partial_downloads
from engine.run.progress import format_progress
from engine.sources.hub_cache import repository_folder
from engine.sources.source import Source
from engine.trace.events import Finished, Loading
from tests.helpers.hub import GOOD, asked, kept_files, repository_at
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

WEIGHTS = "model.safetensors"
WIDTH = 64
PIECE = 1 << 20
"""What is held back at most of what has come."""
LONG = 100_000_000
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=[20, pytest.param(300, marks=pytest.mark.nightly)])
def repository(request, tmp_path_factory):
    """Return the folder of a tiny model with so many tokens that it has so many megabytes."""
    rows = request.param * 1_000_000 // (2 * 4 * WIDTH)
    folder = tmp_path_factory.mktemp("large") / "good"
    return repository_at(folder, vocab_size=rows, hidden_size=WIDTH, seed=None)


@pytest.fixture
def hub(tmp_path, repository, monkeypatch):
    """Serve the repository as ``someone/tiny``; its weights are links to one file."""
    shutil.copytree(repository, tmp_path / GOOD, copy_function=os.link)
    with asked(tmp_path, monkeypatch) as served:
        yield served


@pytest.fixture
def most(hub):
    """Return 60 % of the bytes of the weights."""
    return (hub.folder / GOOD / WEIGHTS).stat().st_size * 6 // 10


def request(model=GOOD):
    return DecodeRequest("greedy", model, "Once", params={"max_new_tokens": 2})


def refusal():
    text = clean(str(failed(request())), most=300)
    assert "127.0.0.1" not in text
    assert "/tmp" not in text
    assert text.endswith(".")
    return text


def own():
    return repository_folder(constants.HF_HUB_CACHE, GOOD)


def part_of(hub):
    """Return where the weights are kept until they are whole."""
    with (hub.folder / GOOD / WEIGHTS).open("rb") as file:
        name = hashlib.file_digest(file, "sha256").hexdigest()
    return own() / partial_downloads.FOLDER / name


def large_files():
    """Return the paths of what has come of the weights."""
    return [path for path in kept_files(own()) if size_of(path) > PIECE]


def size_of(path):
    """Return the size of a file in bytes; 0 if it has been renamed since it was listed."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def begin_elsewhere(hub):
    """Begin to run the model in another process."""
    known = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": constants.HF_HUB_CACHE, "HF_HUB_OFFLINE": "0"}
    words = ["run", "greedy", "--model", GOOD, "--prompt", "Once", "--set", "max_new_tokens=2"]
    return subprocess.Popen(
        [sys.executable, "-m", "engine", *words],
        env=os.environ | known,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_download(process):
    """Return whether a process downloads a model, and has not ended."""
    try:
        return "engine.models.hub_download_job" in process.cmdline()
    except psutil.Error:
        return False


def downloads():
    """Return the processes that download for this one; a stopped one ends a moment later."""
    return [one for one in psutil.Process().children() if is_download(one)]


def end_elsewhere(process):
    """Wait until a process has run the model."""
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said


def test_a_line_that_breaks_is_continued_by_another_process(hub, most):
    hub.breaks[WEIGHTS] = most
    text = refusal()
    kept = part_of(hub).stat().st_size
    assert f"; {kept / 1e6:.0f} MB are kept, and the next try goes on from there." in text
    assert most - PIECE < kept <= most
    assert large_files() == [str(part_of(hub))], "what is not whole looks like a model"
    hub.breaks.clear()
    # Each try has a process of its own; here what began it is another one, too.
    if most > LONG:
        end_elsewhere(begin_elsewhere(hub))
    assert finished(request()).steps
    assert hub.begun[0] == (WEIGHTS, 0)
    assert {*hub.begun[1:]} == {(WEIGHTS, kept)}
    assert not part_of(hub).exists()


def test_who_stops_keeps_what_has_come(hub, most):
    """Meanwhile bytes, their rate and the time that is left are told."""
    hub.waits[WEIGHTS], hub.per_s = most, most / 60
    run, rates = decode(request()), []
    for event in run:
        assert isinstance(event, Loading), event
        if event.per_s and not rates:
            rates.append(format_progress(event))
            hub.per_s = 0
        if event.got > most - PIECE:
            break
    run.cancel()
    assert "Stopped" in str([*run][-1].error)
    comes_true(lambda: not hubs._DOWNLOADS.active and not downloads())
    assert rates
    assert "MB/s, " in rates[0]
    assert rates[0].endswith(" s left…")
    comes_true(lambda: large_files() == [str(part_of(hub))])
    kept = part_of(hub).stat().st_size
    hub.go_on.set()
    events = list(decode(request()))
    assert isinstance(events[-1], Finished)
    assert hub.begun == [(WEIGHTS, 0), (WEIGHTS, kept)]
    told = [event.got for event in events if isinstance(event, Loading) and event.got]
    assert not told or told[0] >= kept, "what was there before is not counted"


def test_two_who_ask_at_once_share_one_download(hub, most):
    hub.waits[WEIGHTS] = most
    runs = [decode(request()), decode(request())]
    comes_true(lambda: GOOD in hubs._DOWNLOADS.active and hubs._DOWNLOADS.active[GOOD].waiting == 2)
    hub.go_on.set()
    assert all(isinstance([*run][-1], Finished) for run in runs)
    assert hub.begun == [(WEIGHTS, 0)]


@pytest.mark.nightly
def test_two_processes_that_ask_at_once_fetch_it_once(hub, most):
    hub.waits[WEIGHTS] = most
    first, second = begin_elsewhere(hub), begin_elsewhere(hub)
    comes_true(lambda: hub.asked.count(f"/api/models/{GOOD}/revision/main") == 2 and hub.begun)
    hub.go_on.set()
    end_elsewhere(first)
    end_elsewhere(second)
    assert hub.begun == [(WEIGHTS, 0)]
    assert not part_of(hub).exists()


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_a_killed_server_ends_its_download_and_the_next_one_continues(hub, most):
    hub.waits[WEIGHTS] = most
    server = begin_elsewhere(hub)
    comes_true(lambda: large_files() and part_of(hub).stat().st_size == most // PIECE * PIECE)
    jobs = [
        Path("/proc", child)
        for task in Path(f"/proc/{server.pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    assert jobs
    server.kill()
    server.communicate()
    comes_true(lambda: not any(job.exists() for job in jobs))
    hub.go_on.set()
    assert finished(request()).steps
    assert hub.begun == [(WEIGHTS, 0), (WEIGHTS, most // PIECE * PIECE)]


def test_whole_files_of_a_broken_download_are_not_fetched_again(hub, most):
    folder = hub.folder / GOOD
    model = AutoModelForCausalLM.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size=most)
    first, second = sorted(path.name for path in folder.glob("*.safetensors"))
    hub.breaks[second] = PIECE * 2
    assert "are kept, and the next try goes on from there" in refusal()
    hub.breaks.clear()
    assert finished(request()).steps
    assert [name for name, _ in hub.begun].count(first) == 1
    assert hub.begun[-1][1] > 0


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json"])
def test_a_file_of_another_hash_is_refused_and_removed(hub, name):
    hub.changed = {name}
    assert f"What came as {name} is not the file that the hub announced" in refusal()
    assert not large_files()
    assert not [*own().glob(f"snapshots/*/{name}")]
    hub.changed.clear()
    assert finished(request()).steps


def left_by_an_earlier_try(hub, size):
    part_of(hub).parent.mkdir(parents=True)
    part_of(hub).write_bytes(b"\0" * size)


def test_a_part_that_is_not_of_the_file_is_found_out(hub, most):
    left_by_an_earlier_try(hub, most)
    assert "its hash is another one, so it was removed" in refusal()
    assert finished(request()).steps
    assert hub.begun == [(WEIGHTS, most), (WEIGHTS, 0)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file here is always full")
def test_a_full_disk_keeps_nothing(hub):
    part_of(hub).parent.mkdir(parents=True)
    part_of(hub).symlink_to("/dev/full")
    assert f"The disk has no space left for {GOOD}" in refusal()
    assert not part_of(hub).parent.exists()
    assert finished(request()).steps


def test_a_model_that_was_removed_or_closed_meanwhile(hub, most):
    left_by_an_earlier_try(hub, most)
    hub.about[GOOD] = {"gated": "manual"}
    assert "is gated: ask for access" in refusal()
    shutil.move(hub.folder / GOOD, hub.folder / "away")
    assert "does not exist on the hub, or is private" in refusal()


@pytest.fixture
def kept(tmp_path):
    """Return a cache with parts of three repositories: of 10 bytes, 20 and 30, the first the oldest."""
    for number in (1, 2, 3):
        path = tmp_path / f"models--a--{number}" / partial_downloads.FOLDER / "part"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"." * 10 * number)
        changed = path.stat().st_mtime - 1000 * (4 - number)
        os.utime(path, (changed, changed))
    return tmp_path


@pytest.mark.parametrize(
    ("most", "age_s", "busy", "stay"),
    [
        (60, 1e6, (), "123"),
        (59, 1e6, (), "23"),
        (49, 1e6, (), "3"),
        (0, 1e6, (), ""),
        (60, 2500, (), "23"),
        (60, 2500, "1", "123"),
        (49, 1e6, "2", "2"),
    ],
)
def test_parts_go_when_they_are_old_or_too_many(kept, most, age_s, busy, stay):
    left = partial_downloads.remove_old_parts(
        kept, [kept / f"models--a--{n}" for n in busy], most, age_s
    )
    assert sorted(path.name[-1] for path in kept.iterdir()) == list(stay)
    assert left == sum(10 * int(n) for n in stay)


@pytest.mark.nightly
def test_a_space_counts_parts_and_says_which_model_left_its_disk(hub, monkeypatch):
    names = [f"someone/{word}" for word in ("first", "second")]
    for name in names:
        shutil.copytree(hub.folder / GOOD, hub.folder / name, copy_function=os.link)
    size = sum(path.stat().st_size for path in (hub.folder / GOOD).iterdir())
    left_by_an_earlier_try(hub, size // 2)
    room = {"public": True, "allowed_models": " ".join(names), "max_hub_gb": 2.2 * size / 1e9}
    monkeypatch.setattr(hubs, "SETTINGS", dataclasses.replace(hubs.SETTINGS, **room))
    finished(request(names[0]))
    told = [event for event in decode(request(names[1])) if isinstance(event, Loading)]
    assert told[-1].left_disk == (names[0],)
    assert (
        format_progress(told[-1]) == f"Loading {names[1]}; {names[0]} left the disk to make room…"
    )
    assert part_of(hub).exists()
    assert Source.parse(names[0]).folder() is None
