"""The process of one custom method, from outside: started, fed one job, listened to, and ended whatever it does."""

from __future__ import annotations

import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, MethodError, TraceError
from engine.methods import wire
from engine.methods.folder import Method
from engine.methods.outcome import Outcome, outcome_of
from engine.settings import SETTINGS
from engine.trace.json_io import step_from_dict
from engine.trace.records import Step

_ROOT = Path(__file__).resolve().parents[2]
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from engine.methods.host import main; main(*map(int, sys.argv[2:]))"
)
_KEPT = ("PATH", "LANG", "LC_ALL", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Of the environment, all that goes along."""
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/sys",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/dev/null",
)
_DEVICES = ("/dev/urandom", "/dev/random")
_POLL_S = 0.05
_LOOK_S = 0.5
_MAX_PRINTED = 20_000
_MAX_PIPE = 65_536
MAX_FILE_BYTES = 16_000_000
_MAX_FILES = 5_000
_SPAWNER = ThreadPoolExecutor(1, thread_name_prefix="methods")
"""Starts all of them: a child ends with the thread that started it, and this one lasts."""


class Child:
    """A confined process with a model in memory, for one run of one method.

    Args:
        folder: the model's, absolute.
        weights: how it is held, names and values of declare.weights.

    Attributes:
        printed: what the method has printed, its first 20,000 characters.
        is_ready: whether the model is in its memory and everything else out of its reach.
        barriers: of confine.BARRIERS, those that are up; known once it is ready.
        load_s: seconds that it took to load the model, likewise.
    """

    def __init__(self, folder: str, weights: dict[str, Any] | None = None) -> None:
        self.printed = ""
        self.is_ready = self._closed = False
        self.barriers: tuple[str, ...] = ()
        self.load_s = 0.0
        self._own = Path(tempfile.mkdtemp(prefix="method-"))
        self._messages: list[dict[str, Any]] = []
        self._buffer = bytearray()
        try:
            self._process = _SPAWNER.submit(self._start).result()
        except BaseException:
            shutil.rmtree(self._own, ignore_errors=True)
            raise
        self._send(
            {
                "model": folder,
                "weights": weights or {},
                "readable": readable(folder),
                "own": str(self._own),
                "threads": _threads(),
                "memory_bytes": int(SETTINGS.max_method_memory_gb * 1e9),
                "cpu_s": SETTINGS.max_method_s * (os.cpu_count() or 1),
                "file_bytes": MAX_FILE_BYTES,
            }
        )

    def _start(self) -> subprocess.Popen[bytes]:
        read, write = os.pipe()
        home = self._own / "home"
        home.mkdir()
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {"HOME": str(home), "TMPDIR": str(self._own), "HF_HUB_OFFLINE": "1"}
        environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-u", "-c", _BOOT, str(_ROOT), str(os.getpid()), str(write)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._own,
                env=environment,
                pass_fds=(write,),
                start_new_session=True,
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        self._channel = read
        return process

    def _put(self, method: Method) -> Path:
        """Write a method's files where the process can read them; return their folder."""
        folder = self._own / "method" / _plain(method.name)
        for path, content in method.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return folder

    def run(
        self, method: Method, job: dict[str, Any], cancelled: threading.Event | None = None
    ) -> Generator[Step, None, Outcome]:
        """Run a method; yield its steps as they are seen, and return what came of it.

        Args:
            method: what is run.
            job: see ``host``, without method and takes.
            cancelled: ends the process when set.

        Raises:
            Cancelled: it was cancelled.
            MethodError: the method raised, ended its process, ran too long, or returned what is no ids.
        """
        self.wait(cancelled)
        self._send({**job, "method": str(self._put(method)), "takes": sorted(method.takes)})
        for message in self._listen(SETTINGS.max_method_s, cancelled):
            if "end" in message:
                return outcome_of(message["end"])
            yield _step(message)
        raise MethodError(_how_it_ended(self._end(wait=True)))

    def wait(self, cancelled: threading.Event | None = None) -> None:
        """Wait until the model is in its memory.

        Raises:
            Cancelled: it was cancelled.
            MethodError: it could not get ready.
        """
        if self.is_ready:
            return
        for message in self._listen(SETTINGS.load_timeout_s, cancelled):
            ready = message["ready"]
            self.is_ready, self.barriers = True, tuple(ready["barriers"])
            self.load_s = ready["load_s"]
            return
        raise MethodError(f"The method's process could not start: {self.printed[-300:]!r}.")

    @property
    def is_alive(self) -> bool:
        """Whether its process goes on: the pipe of its messages has an end there."""
        there = select.poll()
        there.register(self._channel, 0)
        return not self._closed and not there.poll(0)

    def close(self) -> None:
        """End the process and everything it has started, and remove its folder; again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._end()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        os.close(self._channel)
        shutil.rmtree(self._own, ignore_errors=True)

    def _end(self, *, wait: bool = False) -> int:
        """End the whole group of the process; return the status it ends with.

        Args:
            wait: until it has ended by itself.
        """
        if self._process.returncode is not None:
            return self._process.returncode
        if wait:
            # Its number stays its own until it is asked for its status: nobody else's group is ended.
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self._process.wait()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(wire.packed(message))
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # why it has ended is found out by whoever listens

    def _listen(
        self, within_s: float, cancelled: threading.Event | None
    ) -> Iterator[dict[str, Any]]:
        """Yield messages until the process ends."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + within_s
        look = time.monotonic() + _LOOK_S
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._channel, selectors.EVENT_READ, self._hear)
            pipes.register(self._process.stdout.fileno(), selectors.EVENT_READ, self._print)
            while pipes.get_map():
                for key, _ in pipes.select(_POLL_S):
                    data = os.read(key.fd, _MAX_PIPE)
                    if not data:
                        pipes.unregister(key.fd)
                    key.data(data)
                while self._messages:
                    yield self._messages.pop(0)
                if cancelled is not None and cancelled.is_set():
                    raise Cancelled
                now = time.monotonic()
                if now > deadline:
                    raise MethodError(f"The method ran past {within_s:g} seconds and was ended.")
                if now > look:
                    look = now + _LOOK_S
                    self._check_disk()

    def _hear(self, data: bytes) -> None:
        self._buffer += data
        try:
            self._messages += wire.unpacked(self._buffer)
        except wire.WireError:
            raise MethodError(
                "The method wrote into the pipe of its messages and was ended."
            ) from None

    def _print(self, data: bytes) -> None:
        if len(self.printed) < _MAX_PRINTED:
            self.printed = (self.printed + data.decode("utf-8", "replace"))[:_MAX_PRINTED]

    def _check_disk(self) -> None:
        size = count = 0
        for folder, _, names in os.walk(self._own):
            for name in names:
                count += 1
                try:
                    size += os.lstat(os.path.join(folder, name)).st_size
                except OSError:
                    continue
            if size > 4 * MAX_FILE_BYTES or count > _MAX_FILES:
                raise MethodError(
                    f"The method wrote more than {4 * MAX_FILE_BYTES // 1_000_000} MB or"
                    f" {_MAX_FILES:,} files and was ended."
                )


def drained(run: Generator[Step, None, Outcome]) -> tuple[list[Step], Outcome]:
    """Take a run to its end; return its steps and what came of it.

    Raises:
        Cancelled, MethodError: as ``Child.run``.
    """
    steps: list[Step] = []
    while True:
        try:
            steps.append(next(run))
        except StopIteration as stop:
            return steps, stop.value


def _step(message: dict[str, Any]) -> Step:
    """Return the step of a message; nobody says that the host wrote it."""
    try:
        step = step_from_dict(message["step"])
    except (KeyError, TraceError):
        raise MethodError("The method wrote into the pipe of its messages and was ended.") from None
    return step


def readable(model: str) -> list[str]:
    """Return the folders and files that a confined process may read: Python, packages, the engine, the model."""
    own = {
        Path(p).resolve() for p in (*sys.path, sys.prefix, sys.base_prefix, sys.exec_prefix) if p
    }
    own.discard(_ROOT)
    own.discard(Path.cwd().resolve())
    engine = [_ROOT / "engine", _ROOT / "assets"]
    folder = Path(model)
    # Files of a hub's cache are links to blobs that stand beside the snapshots.
    models = {folder, folder.resolve(), *(f.resolve() for f in folder.iterdir())}
    paths = [*own, *engine, *models, *map(Path, (*_SYSTEM, *_DEVICES))]
    return sorted(str(path) for path in paths if path.exists())


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _plain(name: str) -> str:
    """Return a folder's name as transformers can make a module of it."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
    return kept or "method"


def _how_it_ended(status: int) -> str:
    if status < 0:
        name = signal.Signals(-status).name
        if name == "SIGXCPU":
            return "The method used too much of the processor and was ended."
        return f"The method ended its process by the signal {name}."
    return f"The method ended its process with status {status}."
