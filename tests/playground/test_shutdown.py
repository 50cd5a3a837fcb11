"""A server that is told to end does so, whatever goes on in it and whichever thread is told."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.helpers.client import Client
from tests.helpers.methods import STAND_IN, plain_model
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import ROOT, playground, process


@pytest.mark.skipif(sys.platform != "linux", reason="a signal to one thread is Linux's own")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)]
)
def test_the_server_ends_whichever_thread_gets_the_signal(tmp_path, number):
    """The system gives a signal to any thread of a process; Python acts on it in the main one alone."""
    log = tmp_path / "log.txt"
    with process(log) as (_, served):
        threads = [int(name) for name in os.listdir(f"/proc/{served.pid}/task")]
        other = next(thread for thread in threads if thread != served.pid)
        assert ctypes.CDLL(None).tgkill(served.pid, other, int(number)) == 0
        assert served.wait(PATIENCE_S) == 0, log.read_text()


FORKED = """
import os, signal, threading
from playground import app

told = app._open_signal_pipe()

def fork():
    there, here = os.pipe()
    child = os.fork()
    if not child:
        os.write(here, b"!")
        signal.pause()
        os._exit(1)
    os.read(there, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

forking = threading.Thread(target=fork)
forking.start()
forking.join()
os.kill(os.getpid(), signal.SIGINT)
print(list(told.recv(8)))
"""


@pytest.mark.nightly
def test_a_forked_process_ends_without_the_server(tmp_path):
    """On a ZeroGPU a run has a process of its own, which shares what the server had open."""
    ended = subprocess.run(
        [sys.executable, "-c", FORKED],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.stdout.split("\n")[:2] == [f"-{int(signal.SIGTERM)}", f"[{int(signal.SIGINT)}]"], (
        ended.stderr
    )


WAITS = """
import os, signal, sys, threading
from types import SimpleNamespace

from engine.sandbox import sandbox_parent, prewarmed_process
from playground import app

sandbox_parent._BOOT_CODE = sys.argv[1]

def serve(host, port):
    spec = prewarmed_process._make_spec(sys.argv[2], None)
    prewarmed_process._PREWARMER.schedule_start(spec, 0.0)
    while prewarmed_process._PREWARMER._waiting is None:
        threading.Event().wait(0.01)
    print(prewarmed_process._PREWARMER._waiting.child._process.pid)
    os.kill(os.getpid(), signal.SIGTERM)
    return SimpleNamespace(close=lambda: None)

app.serve, app._warm_up = serve, lambda: None
app.launch("127.0.0.1", 0)
"""


@pytest.mark.nightly
def test_the_end_of_the_server_ends_the_process_that_waits_for_a_method(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", WAITS, STAND_IN, plain_model(tmp_path / "model")],
        check=False,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path), "PLAYGROUND_JOURNAL": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(ended.stdout.split()[0]), 0)
    assert not list(tmp_path.glob("*method-*"))


@pytest.mark.nightly
def test_the_end_of_the_server_ends_those_who_wait(tmp_path):
    """Leaving the block is SIGTERM, after which the server has to end by itself."""
    long = {"do_sample": True, "distribution_runs": 2000, "max_new_tokens": 8}
    with ThreadPoolExecutor(3) as pool, playground(tmp_path / "log.txt") as url:
        client = Client(url)
        events = [
            client.post(
                "/gradio_api/call/prompt_lookup",
                json={"data": ["Once upon a time", None, long, seed]},
            ).json()["event_id"]
            for seed in range(3)
        ]
        path = "/gradio_api/call/prompt_lookup"
        waiting = [pool.submit(client.get, f"{path}/{event}") for event in events]
    assert all(answer.done() or answer.exception() is None for answer in waiting)
