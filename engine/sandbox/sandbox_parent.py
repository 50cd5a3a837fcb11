"""The parent's side of a sandboxed process: starts it, sends a job, reads messages, ends it."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, MethodError, format_value
from engine.sandbox import wire
from engine.sandbox.folder import Method
from engine.sandbox.outcome import MessageReader, Outcome, describe_exit
from engine.sandbox.scratch_folder import MAX_BYTES, MAX_ENTRIES, MAX_FILE_BYTES, ScratchFolder
from engine.settings import SETTINGS
from engine.timing_noise import work_time
from engine.trace.records import Step

_ROOT = Path(__file__).resolve().parents[2]
_BOOT_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from engine.sandbox.sandbox_main import main; main(*map(int, sys.argv[2:]))"
)
# -I: no user site-packages, no PYTHON* variables, no current folder on sys.path.
_PYTHON = (sys.executable, "-I", "-u", "-X", "utf8", "-c")
_PASSED_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""Environment variables passed to the process; all others may hold secrets."""
_SYSTEM_PATHS = (
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
_DEVICE_PATHS = ("/dev/urandom", "/dev/random")
_POLL_S = 0.05
_CHECK_INTERVAL_S = 0.1
_MAX_PRINTED = 20_000
_READ_BYTES = 65_536
MAX_THREADS = 512


class _Spawner:
    """One lasting thread that starts all sandboxed processes.

    PR_SET_PDEATHSIG ends a process with the thread that started it, so that thread must outlive the
    run.
    """

    def __init__(self) -> None:
        self._reset_pool()
        # A forked process (a ZeroGPU forks for every run) has none of its parent's threads.
        os.register_at_fork(after_in_child=self._reset_pool)

    def _reset_pool(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="methods")

    def start(self, start: Callable[[], Any]) -> Any:
        """Call a function in that thread and return its result."""
        return self._pool.submit(start).result()


_SPAWNER = _Spawner()


class SandboxProcess:
    """A confined process with a model in memory, for one run of one method.

    It is never used for a second run: a method may have altered its model.

    Args:
        folder: the model's, absolute.
        weights: names and values of declare.weights.

    Attributes:
        is_ready: whether its model is loaded and its barriers are set.
        barriers: the active ones of confine.BARRIERS; set once it is ready.
        load_s: seconds to load the model; set once it is ready.
    """

    def __init__(self, folder: str, weights: Mapping[str, object] | None = None) -> None:
        self.is_ready = self._closed = False
        self.barriers: tuple[str, ...] = ()
        self.load_s = 0.0
        self._vocab_size = self._heard = 0
        self._printed = bytearray()
        self._messages: list[dict[str, Any]] = []
        self._buffer = bytearray()
        self._own = ScratchFolder()
        try:
            setup = self._build_setup(folder, weights or {})
            self._process = _SPAWNER.start(self._start)
        except BaseException:
            self._own.remove()
            raise
        self._send(setup)

    @property
    def printed(self) -> str:
        """The method's output, at most 20,000 characters."""
        return self._printed.decode("utf-8", "replace")[:_MAX_PRINTED]

    def _build_setup(self, folder: str, weights: Mapping[str, object]) -> dict[str, Any]:
        return {
            "model": folder,
            "weights": weights,
            "readable": list_readable_paths(folder),
            "own": str(self._own.path),
            "threads": _thread_count(),
            "memory_bytes": int(SETTINGS.max_method_memory_gb * 1e9),
            "cpu_s": SETTINGS.max_method_s * (os.cpu_count() or 1),
            "file_bytes": MAX_FILE_BYTES,
        }

    def _start(self) -> subprocess.Popen[bytes]:
        read, write = os.pipe()
        home = self._own.path / "home"
        home.mkdir()
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        environment |= {"HOME": str(home), "TMPDIR": str(self._own.path), "HF_HUB_OFFLINE": "1"}
        # torch asks for a user's name, and /etc/passwd cannot be read there.
        environment["USER"] = "method"
        environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
        # A driver that may not open its device files would end the process.
        environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"] = ""
        try:
            process = subprocess.Popen(
                [*_PYTHON, _BOOT_CODE, str(_ROOT), str(os.getpid()), str(write)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._own.path,
                env=environment,
                pass_fds=(write,),
                # A process group of its own, so that killpg reaches everything it has started.
                start_new_session=True,
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        self._channel = read
        return process

    def _write_method(self, method: Method) -> Path:
        """Write a method's files into the process's folder and return their path."""
        folder = self._own.path / "method" / _to_module_name(method.name)
        for path, content in method.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return folder

    def run(
        self, method: Method, job: dict[str, Any], cancelled: threading.Event | None = None
    ) -> Generator[Step, None, Outcome]:
        """Run a method: yield its steps as they are observed, return its outcome.

        Args:
            method: the method.
            job: see ``host``, without method and takes.
            cancelled: ends the process when set.

        Raises:
            Cancelled: the run was cancelled.
            MethodError: the method raised, ended its process, ran too long, or returned something
                other than ids.
        """
        self.wait(cancelled)
        self._send(
            {**job, "method": str(self._write_method(method)), "takes": sorted(method.takes)}
        )
        hearing = MessageReader(self._vocab_size)
        for message in self._listen(SETTINGS.max_method_s, cancelled):
            if "end" in message:
                return hearing.read_outcome(message["end"])
            yield hearing.read_step(message)
        raise MethodError(describe_exit(self._kill()))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the method wait after its next step until the block ends; its time limit waits, too."""
        self._send({"pause": True})
        try:
            yield
        finally:
            self._send({"pause": False})

    def wait(self, cancelled: threading.Event | None = None) -> None:
        """Wait until the model is loaded.

        Raises:
            Cancelled: the run was cancelled.
            MethodError: the process could not start.
        """
        if self.is_ready:
            return
        for message in self._listen(SETTINGS.load_timeout_s, cancelled):
            ready = message["ready"]
            self.is_ready, self.barriers = True, tuple(ready["barriers"])
            self.load_s, self._vocab_size = ready["load_s"], ready["vocab_size"]
            return
        # The last line of a traceback names the error; a process that was killed printed nothing.
        lines = [line.strip() for line in self.printed.splitlines() if line.strip()]
        why = f"{lines[-1][-300:].rstrip('.')}." if lines else describe_exit(self._kill())
        raise MethodError("The method's process could not start: {why}", why=why)

    @property
    def is_alive(self) -> bool:
        """Whether the process still holds its end of the message pipe."""
        there = select.poll()
        there.register(self._channel, 0)
        return not self._closed and not there.poll(0)

    def close(self) -> None:
        """Kill the process with its process group and remove its folder; safe to repeat."""
        if self._closed:
            return
        self._closed = True
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        os.close(self._channel)
        self._own.remove()

    def _has_ended(self) -> bool:
        """Return whether the process has exited; WNOWAIT keeps its pid from being reused."""
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self._process.pid, look) is not None

    def _kill(self) -> int:
        """Kill the whole process group and return the exit status."""
        if self._process.returncode is not None:
            return self._process.returncode
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self._process.wait()

    def __enter__(self) -> SandboxProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(wire.pack_message(message))
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the reader of its messages reports why it ended

    def _listen(
        self, within_s: float, cancelled: threading.Event | None
    ) -> Iterator[dict[str, Any]]:
        """Yield messages until the process ends."""
        assert self._process.stdout is not None
        deadline = work_time() + within_s
        look = time.monotonic() + _CHECK_INTERVAL_S
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._channel, selectors.EVENT_READ, self._receive)
            pipes.register(
                self._process.stdout.fileno(), selectors.EVENT_READ, self._append_printed
            )
            # A process that has closed its pipes may still run, so waitid decides.
            while (events := pipes.select(_POLL_S)) or not self._has_ended():
                for key, _ in events:
                    data = os.read(key.fd, _READ_BYTES)
                    if not data:
                        pipes.unregister(key.fd)
                    key.data(data)
                while self._messages:
                    yield self._messages.pop(0)
                if cancelled is not None and cancelled.is_set():
                    raise Cancelled
                now = time.monotonic()
                if work_time() > deadline:
                    raise MethodError(
                        "The method ran past {s} seconds and was ended.", s=f"{within_s:g}"
                    )
                if now > look:
                    look = now + _CHECK_INTERVAL_S
                    self._check_threads()
                    self._check_disk()

    def _receive(self, data: bytes) -> None:
        self._heard += len(data)
        if self._heard > SETTINGS.max_trace_bytes:
            most = f"{SETTINGS.max_trace_bytes // 1_000_000} MB"
            raise MethodError(
                "The method's record became larger than {most} and it was ended.", most=most
            )
        self._buffer += data
        try:
            self._messages += wire.unpack_messages(self._buffer)
        except wire.WireError:
            raise MethodError(
                "The method wrote into the pipe of its messages and was ended."
            ) from None

    def _append_printed(self, data: bytes) -> None:
        # A character has at most four bytes in UTF-8.
        self._printed += data[: max(4 * _MAX_PRINTED - len(self._printed), 0)]

    # Counted from outside: RLIMIT_NPROC would count all of the user's threads, in any container.
    def _check_threads(self) -> None:
        try:
            about = Path(f"/proc/{self._process.pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return
        # The program's name, in brackets, may contain spaces; num_threads is field 18 after it.
        if int(about.rpartition(")")[2].split()[17]) > MAX_THREADS:
            raise MethodError(
                "The method started more than {n} threads and was ended.", n=MAX_THREADS
            )

    def _check_disk(self) -> None:
        try:
            full = self._own.is_too_full(self._process.pid)
        except OSError:
            raise MethodError(
                "The method made a folder that cannot be looked into and was ended."
            ) from None
        if full:
            raise MethodError(
                "The method wrote more than {size} MB or {n} files and was ended.",
                size=MAX_BYTES // 1000000,
                n=f"{MAX_ENTRIES:,}",
            )


def list_readable_paths(model: str) -> list[str]:
    """Return the paths besides its packages that a confined process may read: engine and model.

    Raises:
        MethodError: the model's folder cannot be read.
    """
    folder = Path(model)
    try:
        # The hub's cache holds links to blobs outside the snapshot; links to folders are ignored.
        blobs = {path for f in folder.iterdir() if (path := f.resolve()).is_file()}
    except OSError as error:
        raise MethodError(
            "The folder of the model {model} cannot be read: {error}.",
            model=format_value(model),
            error=error.strerror,
        ) from None
    engine = [_ROOT / "engine", _ROOT / "assets"]
    paths = [
        *engine,
        folder,
        folder.resolve(),
        *blobs,
        *map(Path, (*_SYSTEM_PATHS, *_DEVICE_PATHS)),
    ]
    return sorted(str(path) for path in paths if path.exists())


def _thread_count() -> int:
    import torch

    return torch.get_num_threads()


def _to_module_name(name: str) -> str:
    """Return a folder name that transformers can import as a module."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
    return kept or "method"
