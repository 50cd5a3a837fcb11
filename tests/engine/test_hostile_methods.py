"""Hostile methods that run: each ends in one sentence within its limits, and leaves nothing behind.

What a method tries that is shut is in ``test_methods_confined``, what is only read in ``test_hostile_sources``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from engine.errors import MethodError
from engine.sandbox import outcome
from engine.sandbox import sandbox_parent as children
from engine.sandbox.confinement import PROCESSES
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.sandbox.scratch_folder import ScratchFolder
from engine.sources.source import Source
from engine.temporary_folder import PREFIX, remove_abandoned_folders
from tests.helpers.hostile import MARK, nothing_left, run_act, working_in
from tests.helpers.method_processes import BARE, BareProcess
from tests.helpers.methods import job
from tests.helpers.patience import comes_true
from tests.helpers.sentences import clean

ROOT = Path(__file__).parents[2]
FULL = "The method wrote more than 64 MB or 5,000 files and was ended."
IN_ITS_OWN = "os.chdir(os.environ['TMPDIR'])\n    "
DEEP = IN_ITS_OWN + "while True: os.mkdir('d'); os.chdir('d')"
HELD = IN_ITS_OWN + (
    "for n in range(100):\n"
    "        with open('f', 'wb') as file: file.write(bytes(1 << 20))\n"
    "        os.open('f', os.O_RDONLY); os.remove('f')\n"
    "    time.sleep(600)"
)
THREADS = (
    "threading.stack_size(1 << 16)\n"
    "    while True: threading.Thread(target=time.sleep, args=(600,)).start()"
)
GROWS = "held = []\n    while True: held.append(bytearray(b'x') * (1 << 24))"
LINKS = "os.symlink('/etc/passwd', 'a'); os.symlink('/', 'b'); return (i for i in 'ab')"
FORKS = "for _ in range(100): os.fork() and os.fork()"
TWICE = "if os.fork() == 0: os.setsid(); os.fork(); time.sleep(600)"
AT = "custom_generate/generate.py, line "
ENDS = {
    "closes its pipes and goes on": (
        "os.closerange(0, 256); time.sleep(600)",
        {"max_method_s": 3.0},
        "The method ran past 3 seconds and was ended.",
    ),
    "threads without end": (THREADS, {}, "The method started more than 512 threads and was ended."),
    "memory bit by bit": (
        GROWS,
        {"max_method_memory_gb": 0.3},
        f"{AT}5: the method needed more memory than the 0.3 GB that it may take beyond its model.",
    ),
    "files that it has deleted": (HELD, {}, FULL),
}
WITH_A_MODEL = {
    "links, and a generator as result": (
        LINKS,
        {},
        "The method returned a generator; it must return token ids, one row for each sequence.",
    ),
    "20 GB": (
        "import torch; torch.ones(5, 1 << 30)",
        {},
        f"{AT}4: the method needed more memory than the 2 GB",
    ),
    "20 GB bit by bit": (GROWS, {}, f"{AT}5: the method needed more memory than the 2 GB"),
    "a bomb of forks": (FORKS, {}, f"{AT}4: PermissionError: [Errno 1] Operation not permitted."),
    "a process that survives it": (TWICE, {}, f"{AT}4: PermissionError: [Errno 1] Operation not"),
    "calls itself": ("f = lambda: f(); f()", {}, f"{AT}4: RecursionError: maximum recursion depth"),
    "floods": (
        "while True: os.write(1, bytes(1 << 16))",
        {"max_method_s": 20.0},
        "The method ran past 20 seconds and was ended.",
    ),
    "returns nothing": ("return None", {}, "The method returned nothing; it must return token ids"),
    "its shared memory": (
        f"open('/dev/shm/{MARK}', 'w')",
        {},
        f"{AT}4: PermissionError: [Errno 13] Permission denied: '/dev/shm/{MARK}'.",
    ),
}


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch, tmp_path_factory):
    with nothing_left(tmp_path_factory.mktemp("own"), monkeypatch):
        yield


def _limited(monkeypatch, **limits):
    settings = dataclasses.replace(children.SETTINGS, **limits)
    for module in (children, outcome):
        monkeypatch.setattr(module, "SETTINGS", settings)


def _check_end(act, folder, monkeypatch, start):
    line, limits, sentence = act
    _limited(monkeypatch, **limits)
    with pytest.raises(MethodError) as raised:
        run_act(folder, line, start())
    assert clean(str(raised.value)).startswith(sentence)


@pytest.fixture(
    params=[BareProcess, pytest.param(SandboxProcess, marks=pytest.mark.nightly)],
    ids=["bare", "whole"],
)
def start(request):
    """Start a process: by day with all its limits but without a model, by night with its model."""
    return lambda: request.param(Source.parse("storyteller").folder())


@pytest.mark.parametrize("act", ENDS)
def test_every_act_ends_in_one_sentence(act, tmp_path, monkeypatch, start):
    _check_end(ENDS[act], tmp_path / "m", monkeypatch, start)


@pytest.mark.nightly
@pytest.mark.parametrize("act", WITH_A_MODEL)
def test_every_act_with_a_model_ends_in_one_sentence(act, tmp_path, monkeypatch):
    model = Source.parse("storyteller").folder()
    _check_end(WITH_A_MODEL[act], tmp_path / "m", monkeypatch, lambda: SandboxProcess(model))


def test_folders_in_folders_are_ended_and_removed(tmp_path, start):
    """Their path is soon longer than any that can be looked at."""
    with pytest.raises(MethodError) as raised:
        run_act(tmp_path / "m", DEEP, start())
    assert str(raised.value) in (
        FULL,
        "The method made a folder that cannot be looked into and was ended.",
    )


def test_a_process_without_a_model_leaves_nothing(tmp_path):
    with pytest.raises(MethodError, match=r"/none' cannot be read: No such file or directory\.$"):
        SandboxProcess(str(tmp_path / "none"))


MIDDLE = """
import json, sys
from engine.sandbox import sandbox_parent as children
from engine.sandbox.folder import Method

program, model, source, job = sys.argv[1:]
# To count its threads, or to read a method from a folder, would import torch.
children._thread_count = lambda: 1
method = Method("stays", {"custom_generate/generate.py": source.encode()}, (), {"input_ids"}, True, True)
children._BOOT_CODE = program
child = children.SandboxProcess(model)
child.wait()
print(*child.barriers, flush=True)
list(child.run(method, json.loads(job)))
"""
STAYS = """
import ctypes, os, time
def generate(model, input_ids, **kwargs):
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    open(os.path.join(os.environ["TMPDIR"], "begun"), "w").close()
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "program",
    [BARE, pytest.param(children._BOOT_CODE, marks=pytest.mark.nightly)],
    ids=["bare", "whole"],
)
def test_a_method_ends_with_its_parent_and_its_folder_with_the_next(program):
    """Who started it is killed, and the method has tried to outlive that."""
    own = Path(tempfile.gettempdir())
    model = Source.parse("storyteller").folder()
    middle = subprocess.Popen(
        [sys.executable, "-c", MIDDLE, program, model, STAYS, json.dumps(job([[5, 9]]))],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(own)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert middle.stdout is not None
        barriers = middle.stdout.readline().split()
        comes_true(lambda: list(own.glob(f"{PREFIX}*/begun")))
        ScratchFolder().remove()
        [left] = own.glob(f"{PREFIX}*")
        assert working_in(left)
    finally:
        middle.kill()
        middle.communicate()
    if PROCESSES not in barriers:
        pytest.skip(f"this kernel has no barrier for {PROCESSES}: a method may cut the tie")
    comes_true(lambda: working_in(left) == [])
    assert left.is_dir()
    ScratchFolder().remove()
    assert not left.exists()


def test_a_folder_that_somebody_holds_or_that_is_not_ours_stays():
    own = Path(tempfile.gettempdir())
    held = ScratchFolder()
    (held.path / "kept").touch()
    link, file = own / f"{PREFIX}link", own / f"{PREFIX}file"
    link.symlink_to(held.path)
    file.touch()
    abandoned = own / f"{PREFIX}abandoned"
    (abandoned / "in").mkdir(parents=True)
    (abandoned / "in" / "out").symlink_to(held.path)
    (abandoned / "shut").mkdir(0o300)
    (abandoned / "shut" / "in").mkdir(0)
    remove_abandoned_folders(own)
    assert sorted(own.iterdir()) == sorted([held.path, link, file])
    assert (held.path / "kept").exists()
    link.unlink()
    file.unlink()
    held.remove()
