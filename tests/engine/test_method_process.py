"""How a method's process starts: all of its threads are shut in, and what makes it quick changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import transformers
from transformers.utils.import_utils import create_import_structure_from_path

from engine.sandbox.confinement import FILES
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.sources.source import Source
from tests.helpers.methods import job, run_method, write_method
from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
IN_EVERY_THREAD = """
import ctypes, gc, json, os, time

def generate(model, input_ids, **kwargs):
    seen = []

    def look(number):
        try:
            seen.append(open({path!r}).read())
        except OSError as error:
            seen.append(type(error).__name__)

    libc, handler = ctypes.CDLL(None), ctypes.CFUNCTYPE(None, ctypes.c_int)(look)
    libc.signal(12, handler)
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    for thread in threads:
        libc.tgkill(os.getpid(), thread, 12)
    until = time.monotonic() + {patience}
    while len(seen) < len(threads) and time.monotonic() < until:
        time.sleep(0.01)
    print(json.dumps([len(threads), seen, gc.isenabled()]))
    return input_ids
"""
WITH_A_THREAD = """
import threading
from pathlib import Path
from engine.sandbox import confinement

done = threading.Event()
other = threading.Thread(target=done.wait)
other.start()
print(confinement.restrict_files([Path("/usr")], []))
done.set()
other.join()
"""


@pytest.mark.nightly
def test_a_signal_finds_no_thread_that_is_outside(tmp_path):
    """A signal makes any thread run a method's code, also one that numpy started when it was imported."""
    secret = tmp_path / "secret"
    secret.write_text("of the owner")
    source = IN_EVERY_THREAD.format(path=str(secret), patience=PATIENCE_S)
    child = SandboxProcess(Source.parse("storyteller").folder())
    run_method(write_method(tmp_path / "m", source), job([[5, 9, 20, 33]]), child)
    if FILES not in child.barriers:
        pytest.skip("this machine has no Landlock")
    threads, seen, collects = json.loads(child.printed)
    assert seen == ["PermissionError"] * threads
    assert collects, "the collector of garbage was left off"


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's own")
def test_files_do_not_count_as_shut_where_a_thread_would_stay_outside():
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_THREAD],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout == "0\n", done.stderr


def test_transformers_finds_the_same_by_both_paths():
    """One of the two scans of its models is left out, as the other says the same."""
    folder = Path(transformers.__file__).parent / "models"
    once = create_import_structure_from_path(folder)
    assert len(once) > 100
    assert once == create_import_structure_from_path(str(folder / "__init__.py"))


def test_a_forked_process_can_start_one_as_well():
    """What was forked has none of its parent's threads, and nobody would start anything there."""
    script = """
import os
from engine.sandbox.sandbox_parent import _SPAWNER
assert _SPAWNER.start(os.getpid) == os.getpid()
pid = os.fork()
if not pid:
    os._exit(0 if _SPAWNER.start(os.getpid) == os.getpid() else 1)
assert os.waitpid(pid, 0)[1] == 0
print("both")
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.stdout == "both\n", ran.stderr
