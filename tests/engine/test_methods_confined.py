"""Hostile methods: what is shut is shut, every end is one sentence, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest
import torch

from engine.errors import Cancelled, MethodError
from engine.methods import child as children
from engine.methods.child import Child
from engine.methods.confine import FILES, NETWORK, PROCESSES, SIGNALS
from engine.methods.folder import read_method
from engine.models.loading import load
from engine.models.locating import located
from tests.helpers.methods import job, run_method, write_method

PROMPT = [5, 9, 20, 33]
CANARY = "canary-of-the-owner"
PROBES = """
import ctypes, json, os, pathlib, socket, subprocess, sys, threading, torch

OUTSIDE, PORT = {outside!r}, {port}

def probes():
    parent = os.getppid()
    yield "env", lambda: [v for v in os.environ.values() if {canary!r} in v][0]
    yield "file", lambda: pathlib.Path(OUTSIDE, "secret").read_text()
    yield "list", lambda: os.listdir(OUTSIDE)
    yield "passwd", lambda: open("/etc/passwd").read(4)
    yield "parents_env", lambda: open(f"/proc/{{parent}}/environ").read(4)
    yield "parents_memory", lambda: open(f"/proc/{{parent}}/mem", "rb").read(1)
    yield "write", lambda: pathlib.Path(OUTSIDE, "left").write_text("x")
    yield "shared_memory", lambda: open("/dev/shm/left-by-a-method", "w").write("x")
    yield "tcp", lambda: socket.create_connection(("127.0.0.1", PORT), 5)
    yield "udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT))
    yield "unix", lambda: socket.socket(socket.AF_UNIX)
    yield "signal", lambda: os.kill(parent, 0)
    yield "fork", lambda: os.fork() or os._exit(0)
    yield "program", lambda: subprocess.run(["true"])
    yield "limits", lambda: __import__("resource").setrlimit(7, (9999, 9999))
    yield "new_session", lambda: os.setsid()
    yield "memory_file", lambda: os.memfd_create("left")

def tried():
    for name, probe in probes():
        try:
            probe()
            yield name, "open"
        except Exception as error:
            yield name, type(error).__name__

def generate(model, input_ids, **kwargs):
    result = dict(tried())
    inside = {{}}
    thread = threading.Thread(target=lambda: inside.update(tried()))
    thread.start()
    thread.join()
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    torch.softmax = None
    print(json.dumps([result, inside]))
    return input_ids
"""
SHUT_BY = {
    FILES: ("file", "list", "passwd", "parents_env", "parents_memory", "write", "shared_memory"),
    NETWORK: ("tcp", "udp", "unix"),
    PROCESSES: ("fork", "program", "limits", "new_session", "memory_file"),
    SIGNALS: ("signal",),
}


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch, tmp_path_factory):
    """Whatever a test does, no process and no file of a method may stand afterwards."""
    own = tmp_path_factory.mktemp("own")
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    started = []
    start = Child._start

    def noted(self):
        process = start(self)
        started.append(process)
        return process

    monkeypatch.setattr(Child, "_start", noted)
    yield
    assert started
    assert all(process.returncode is not None for process in started)
    assert list(own.iterdir()) == []


def _limited(monkeypatch, **limits):
    monkeypatch.setattr(children, "SETTINGS", dataclasses.replace(children.SETTINGS, **limits))


def test_what_is_shut_is_shut_also_to_new_threads(tmp_path, monkeypatch):
    outside = tmp_path / "owner"
    outside.mkdir()
    (outside / "secret").write_text(CANARY)
    monkeypatch.setenv("HF_TOKEN", CANARY)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    before = {k: v.clone() for k, v in load("storyteller").model.state_dict().items()}
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = PROBES.format(outside=str(outside), port=server.getsockname()[1], canary=CANARY)
        child = Child(located("storyteller")[0])
        run_method(write_method(tmp_path / "m", source), job([PROMPT]), child)
    here, in_thread = json.loads(child.printed)
    shut = {name for barrier in child.barriers for name in SHUT_BY[barrier]} | {"env"}
    assert {name for name in shut if here[name] == "open"} == set()
    assert {name for name in shut if in_thread[name] == "open"} == set()
    assert sorted(os.listdir(outside)) == ["secret"]
    assert not Path("/dev/shm/left-by-a-method").exists()
    after = load("storyteller").model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.softmax is not None


ENDS = [
    ("os._exit(3)", "The method ended its process with status 3."),
    ("sys.exit(4)", "custom_generate/generate.py, line 4: the method called sys.exit(4)."),
    ("bytearray(40 << 30)", "custom_generate/generate.py, line 4: the method needed more memory than the 2 GB"),
    ("ctypes.string_at(0)", "The method ended its process by the signal SIGSEGV."),
    ("[os.write(i, b'\\xff' * 64) for i in range(3, 99) if pipe(i)]", "The method wrote into the pipe of its messages"),
    ("1 / 0", "custom_generate/generate.py, line 4: ZeroDivisionError: division by zero."),
]  # fmt: skip
HEAD = """import ctypes, os, stat, sys
def pipe(fd): return os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISFIFO(os.fstat(fd).st_mode)
def generate(model, input_ids, **kwargs):
    %s
    return None if "pipe" not in sys._getframe().f_code.co_names else __import__("time").sleep(60)
"""


@pytest.mark.parametrize(("act", "sentence"), ENDS, ids=[act.partition("(")[0] for act, _ in ENDS])
def test_every_end_is_one_sentence(tmp_path, act, sentence):
    with pytest.raises(MethodError) as raised:
        run_method(write_method(tmp_path / "m", HEAD % act), job([PROMPT]))
    assert str(raised.value).startswith(sentence)


def test_what_does_not_end_is_ended(tmp_path, monkeypatch):
    source = "def generate(model, input_ids, **kw):\n    while True: print('x' * 10_000)\n"
    folder = write_method(tmp_path / "m", source)
    _limited(monkeypatch, max_method_s=2.0)
    child = Child(located("storyteller")[0])
    with pytest.raises(MethodError, match="The method ran past 2 seconds and was ended"):
        run_method(folder, job([PROMPT]), child)
    assert 0 < len(child.printed) <= 20_000


def test_what_fills_the_disk_is_ended(tmp_path):
    source = """import os
def generate(model, input_ids, **kwargs):
    for number in range(10**9):
        with open(os.path.join(os.environ["TMPDIR"], str(number % 40)), "wb") as file:
            file.write(bytes(10_000_000))
"""
    with pytest.raises(
        MethodError, match="The method wrote more than 64 MB or 5,000 files and was ended"
    ):
        run_method(write_method(tmp_path / "m", source), job([PROMPT]))


def test_whoever_cancels_does_not_wait(tmp_path):
    source = "def generate(model, input_ids, **kw):\n    model(input_ids=input_ids)\n    while True: pass\n"
    method = read_method(write_method(tmp_path / "m", source))
    cancelled = threading.Event()
    with Child(located("storyteller")[0]) as process:
        process.wait()
        threading.Timer(0.5, cancelled.set).start()
        with pytest.raises(Cancelled):
            list(process.run(method, job([PROMPT]), cancelled))
