"""Hostile methods: what is shut is shut, every end is one sentence, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading

import pytest
import torch

from engine.errors import Cancelled, MethodError
from engine.sandbox import sandbox_parent as children
from engine.sandbox.confinement import BARRIERS, FILES, NETWORK, PROCESSES, SIGNALS
from engine.sandbox.folder import read_method
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.sources.source import Source
from tests.helpers.hostile import KEY, MARK, nothing_left
from tests.helpers.method_processes import BareProcess
from tests.helpers.methods import job, run_method, write_method

PROMPT = [5, 9, 20, 33]
CANARY = "canary-of-the-owner"
PROBES = """
import ctypes, fcntl, json, os, pathlib, socket, subprocess, sys, threading, torch

OUTSIDE, PORT, MARK, KEY = {outside!r}, {port}, {mark!r}, {key}
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if getattr(libc, name)(*arguments) in (-1, 2**32 - 1):
        raise OSError(ctypes.get_errno(), name)

def limit_by_a_pointer_of_which_half_is_nothing():
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(ctypes.c_void_p(1 << 32), 4096, 3, 0x32, -1, 0)
    assert at == 1 << 32
    call("prlimit", 0, 4, ctypes.c_void_p(at), None)

def semaphore():
    libc.sem_open.restype = ctypes.c_void_p
    if not libc.sem_open(b"/" + MARK.encode(), os.O_CREAT, 0o600, 1):
        raise OSError(ctypes.get_errno(), "sem_open")

def probes():
    parent = os.getppid()
    yield "env", lambda: [v for v in os.environ.values() if {canary!r} in v][0]
    yield "file", lambda: pathlib.Path(OUTSIDE, "secret").read_text()
    yield "list", lambda: os.listdir(OUTSIDE)
    yield "passwd", lambda: open("/etc/passwd").read(4)
    yield "parents_env", lambda: open(f"/proc/{{parent}}/environ").read(4)
    yield "parents_memory", lambda: open(f"/proc/{{parent}}/mem", "rb").read(1)
    yield "write", lambda: pathlib.Path(OUTSIDE, "left").write_text("x")
    yield "through_a_link", lambda: (os.path.islink("link") or os.symlink(OUTSIDE, "link"), open("link/secret").read())
    yield "hard_link", lambda: os.link(f"{{OUTSIDE}}/secret", "hard")
    yield "rename", lambda: os.rename(f"{{OUTSIDE}}/secret", f"{{OUTSIDE}}/other")
    yield "remove", lambda: os.remove(f"{{OUTSIDE}}/secret")
    yield "truncate", lambda: os.truncate(f"{{OUTSIDE}}/secret", 0)
    yield "root", lambda: open(f"/proc/self/root/{{OUTSIDE}}/secret").read()
    yield "extended", lambda: os.setxattr(f"{{OUTSIDE}}/secret", "user.left", b"x")
    yield "shared_memory", lambda: open(f"/dev/shm/{{MARK}}", "w").write("x")
    yield "semaphore", semaphore
    yield "tcp", lambda: socket.create_connection(("127.0.0.1", PORT), 5)
    yield "udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", PORT))
    yield "unix", lambda: socket.socket(socket.AF_UNIX)
    yield "pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    yield "signal", lambda: os.kill(parent, 0)
    yield "owner_of_a_pipe", lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, parent)
    yield "tie_to_the_parent", lambda: call("prctl", 1, 0, 0, 0, 0)
    yield "fork", lambda: os.fork() or os._exit(0)
    yield "program", lambda: subprocess.run(["true"])
    yield "limits", lambda: __import__("resource").setrlimit(7, (9999, 9999))
    yield "new_session", lambda: os.setsid()
    yield "limits_by_half", limit_by_a_pointer_of_which_half_is_nothing
    yield "priority", lambda: call("setpriority", 0, parent, 19)
    yield "processors", lambda: os.sched_setaffinity(parent, {{0}})
    yield "other_memory", lambda: call("process_vm_readv", parent, None, 0, None, 0, 0)
    yield "memory_file", lambda: os.memfd_create("left")
    yield "system_v_memory", lambda: call("shmget", KEY, 4096, 0o1600)
    yield "system_v_queue", lambda: call("msgget", KEY, 0o1600)
    yield "system_v_semaphores", lambda: call("semget", KEY, 1, 0o1600)
    yield "watching_folders", lambda: call("inotify_init1", 0)
    yield "emptying_what_is_read", lambda: os.open("empty", os.O_CREAT | os.O_TRUNC)

def tried():
    for name, probe in probes():
        try:
            probe()
            yield name, "open"
        except Exception as error:
            yield name, type(error).__name__

def generate(model, input_ids, **kwargs):
    secret = f"{{OUTSIDE}}/secret"
    for changed in (lambda: os.chmod(secret, 0o777), lambda: os.utime(secret, (1, 1)), lambda: os.chown(secret, 1, 1)):
        try:
            changed()
        except OSError:
            pass
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
    FILES: (
        "file", "list", "passwd", "parents_env", "parents_memory", "write", "through_a_link", "hard_link", "rename",
        "remove", "truncate", "root", "extended", "shared_memory", "semaphore", "emptying_what_is_read",
    ),
    NETWORK: ("tcp", "udp", "unix", "pair"),
    PROCESSES: (
        "fork", "program", "limits", "limits_by_half", "new_session", "priority", "processors", "other_memory",
        "memory_file", "system_v_memory", "system_v_queue", "system_v_semaphores", "watching_folders",
        "tie_to_the_parent",
    ),
    SIGNALS: ("signal", "owner_of_a_pipe"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch, tmp_path_factory):
    with nothing_left(tmp_path_factory.mktemp("own"), monkeypatch) as started:
        yield
        assert started


def _limited(monkeypatch, **limits):
    monkeypatch.setattr(children, "SETTINGS", dataclasses.replace(children.SETTINGS, **limits))


def test_what_is_shut_is_shut_also_to_new_threads(tmp_path, monkeypatch):
    outside = tmp_path / "owner"
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text(CANARY)
    secret.chmod(0o600)
    stood = secret.stat()
    monkeypatch.setenv("HF_TOKEN", CANARY)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = {"outside": str(outside), "canary": CANARY, "mark": MARK, "key": KEY}
        source = PROBES.format(port=port, **told)
        child = SandboxProcess(Source.parse("storyteller").folder())
        run_method(write_method(tmp_path / "m", source), job([PROMPT]), child)
    here, in_thread = json.loads(child.printed)
    shut = {name for barrier in child.barriers for name in SHUT_BY[barrier]} | {"env"}
    assert {name for name in shut if here[name] == "open"} == set()
    assert {name for name in shut if in_thread[name] == "open"} == set()
    assert CANARY not in child.printed
    assert sorted(os.listdir(outside)) == ["secret"]
    assert secret.read_text() == CANARY
    assert torch.softmax is not None
    if FILES in child.barriers:
        now = secret.stat()
        assert (now.st_mode, now.st_uid, now.st_mtime) == (
            stood.st_mode,
            stood.st_uid,
            stood.st_mtime,
        )
    missing = [name for name in BARRIERS if name not in child.barriers]
    if missing:
        pytest.skip(f"this kernel has no barrier for {', '.join(missing)}; the others held")


ENDS = [
    ("os._exit(3)", "The method ended its process with status 3."),
    ("sys.exit(4)", "custom_generate/generate.py, line 4: the method called sys.exit(4)."),
    ("bytearray(40 << 30)", "custom_generate/generate.py, line 4: the method needed more memory than the 2 GB"),
    ("ctypes.string_at(0)", "The method ended its process by the signal SIGSEGV."),
    ("os.kill(os.getpid(), 9)", "The method's process was killed, by the system for want of memory or from outside."),
    ("[os.write(i, b'\\xff' * 64) for i in range(3, 99) if pipe(i)]", "The method wrote into the pipe of its messages"),
    ("1 / 0", "custom_generate/generate.py, line 4: ZeroDivisionError: division by zero."),
]  # fmt: skip
HEAD = """import ctypes, os, stat, sys
def pipe(fd): return os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISFIFO(os.fstat(fd).st_mode)
def generate(model, input_ids, **kwargs):
    %s
    return None if "pipe" not in sys._getframe().f_code.co_names else __import__("time").sleep(60)
"""


@pytest.fixture(
    params=[BareProcess, pytest.param(SandboxProcess, marks=pytest.mark.nightly)],
    ids=["bare", "whole"],
)
def start(request):
    """Start a process: by day with all its limits but without a model, by night with its model."""
    return lambda: request.param(Source.parse("storyteller").folder())


@pytest.mark.parametrize(("act", "sentence"), ENDS, ids=[act.partition("(")[0] for act, _ in ENDS])
def test_every_end_is_one_sentence(tmp_path, act, sentence, start):
    with pytest.raises(MethodError) as raised:
        run_method(write_method(tmp_path / "m", HEAD % act), job([PROMPT]), start())
    assert str(raised.value).startswith(sentence)


@pytest.mark.nightly
def test_what_does_not_end_is_ended(tmp_path, monkeypatch, start):
    source = "def generate(model, input_ids, **kw):\n    while True: print('x' * 10_000)\n"
    folder = write_method(tmp_path / "m", source)
    _limited(monkeypatch, max_method_s=2.0)
    child = start()
    with pytest.raises(MethodError, match="The method ran past 2 seconds and was ended"):
        run_method(folder, job([PROMPT]), child)
    assert 0 < len(child.printed) <= 20_000


def test_what_fills_the_disk_is_ended(tmp_path, start):
    source = """import os
def generate(model, input_ids, **kwargs):
    for number in range(10**9):
        with open(os.path.join(os.environ["TMPDIR"], str(number % 40)), "wb") as file:
            file.write(bytes(10_000_000))
"""
    with pytest.raises(
        MethodError, match="The method wrote more than 64 MB or 5,000 files and was ended"
    ):
        run_method(write_method(tmp_path / "m", source), job([PROMPT]), start())


def test_a_visitor_who_cancels_does_not_wait(tmp_path, start):
    source = (
        "def generate(model, input_ids, **kw):\n"
        "    if model: model(input_ids=input_ids)\n"
        "    while True: pass\n"
    )
    method = read_method(write_method(tmp_path / "m", source))
    cancelled = threading.Event()
    with start() as process:
        process.wait()
        threading.Timer(0.5, cancelled.set).start()
        with pytest.raises(Cancelled):
            list(process.run(method, job([PROMPT]), cancelled))
