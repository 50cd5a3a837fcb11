"""Which Ray this process uses: one that is there, or its own, which ends with it."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any

from engine.errors import EngineError
from engine.run.visitor import Visitor
from engine.serving.asking import Stream
from engine.settings import SETTINGS

HOW = "python -m pip install -r requirements-cluster.txt"
HERE = "ray"
_SCHEME = "ray://"
_LOOPBACK = "127.0.0.1"
_LOCK = threading.Lock()
_FOUND: list[Future[Any]] = []
"""The handle of the replicas, or what came of looking for them; empty before anybody has asked."""


class ClusterError(EngineError):
    """Replicas cannot be had."""

    code = "cluster"


def ask(fields: Mapping[str, Any], visitor: Visitor, model: str) -> Stream | None:
    """Ask the replicas of this process's engine for a run; see ``asking.Ask``.

    Raises:
        ClusterError: there are none.
    """
    found = found_soon()
    if not found.done():
        return None
    try:
        handle = found.result()
    except EngineError:
        with _LOCK:
            # Whoever asks next looks again.
            _FOUND.clear()
        raise
    from engine.serving.stream import ReplicaStream

    return ReplicaStream(handle, fields, visitor, model, uuid.uuid4().hex)


def reports() -> list[dict[str, Any]]:
    """Return the report of every replica that answers, nothing while none is known."""
    with _LOCK:
        known = [found for found in _FOUND if found.done() and found.exception() is None]
    if not known:
        return []
    from engine.serving.stream import reports as told

    return told(known[0].result())


def found_soon() -> Future[Any]:
    """Begin to look for the replicas that PLAYGROUND_ENGINE names, and return what will come of it."""
    with _LOCK:
        if not _FOUND:
            _FOUND.append(Future())
            threading.Thread(target=_find, args=(_FOUND[0],), name="cluster", daemon=True).start()
        return _FOUND[0]


def use(handle: Any) -> None:
    """Take these replicas for this process's engine."""
    with _LOCK:
        _FOUND[:] = [Future()]
        _FOUND[0].set_result(handle)


def _find(found: Future[Any]) -> None:
    try:
        found.set_result(_handle(SETTINGS.engine))
    except EngineError as error:
        found.set_exception(error)
    except Exception as error:
        sentence = f"The replicas cannot be reached ({type(error).__name__})."
        found.set_exception(ClusterError(sentence))


def _handle(engine: str) -> Any:
    """Return the handle of the replicas of an engine, which are started where there are none on this machine.

    Raises:
        ClusterError: it is not known, or there are none.
    """
    if engine != HERE and not engine.startswith(_SCHEME):
        raise ClusterError(f"PLAYGROUND_ENGINE = {engine!r} is not local, ray or ray://host:port.")
    needed()
    if engine != HERE:
        join(engine.removeprefix(_SCHEME))
        return running(engine)
    try:
        join("auto")
        return running(engine)
    except ClusterError:
        from engine.serving.deployment import deploy

        cores = share_of_cores(SETTINGS.replicas)
        start(SETTINGS.replicas * cores)
        return deploy(SETTINGS.replicas, cpus_per_replica=cores)


def needed() -> None:
    """Check that Ray is there.

    Raises:
        ClusterError: it is not.
    """
    if find_spec("ray") is None:
        raise ClusterError(f"Replicas need Ray: {HOW}")


def share_of_cores(replicas: int) -> int:
    """Return the cores of each of so many replicas on this machine, at least one."""
    return max(1, (os.cpu_count() or 1) // replicas)


def start(cores: float, gpus: float | None = None, host: str = _LOOPBACK) -> str:
    """Start a Ray of this process's own, which ends with it, and return its address.

    Args:
        cores: that its replicas share.
        gpus: likewise; None for all that are there.
        host: the address at which its processes listen; whoever reaches it may run code there.
    """
    ray = _ray(host)
    # A folder of its own, as short as a socket's path has to be, that goes when Ray has ended.
    folder = tempfile.mkdtemp(prefix="ray-")
    context = ray.init(
        address="local",
        num_cpus=cores,
        num_gpus=gpus,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=int(SETTINGS.object_store_mb * 1e6),
        _node_ip_address=host,
        _temp_dir=folder,
    )
    atexit.register(_end, folder)
    return context.address_info["address"]


def join(address: str) -> None:
    """Join a Ray that this machine is a node of.

    Raises:
        ClusterError: there is none.
    """
    ray = _ray(_LOOPBACK if address == "auto" else address.split(":", maxsplit=1)[0])
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = "on this machine" if address == "auto" else f"at {address}"
        raise ClusterError(f"There is no Ray {where} ({type(error).__name__}).") from None


def running(engine: str) -> Any:
    """Return the handle of the replicas that are there.

    Raises:
        ClusterError: none were started.
    """
    from ray import serve  # pyright: ignore[reportMissingImports]
    from ray.serve.exceptions import RayServeException  # pyright: ignore[reportMissingImports]

    from engine.serving.deployment import APP, REPLICA

    try:
        return serve.get_deployment_handle(REPLICA, APP)
    except RayServeException:
        leave()
        address = "" if engine == HERE else f" --address {engine.removeprefix(_SCHEME)}"
        raise ClusterError(
            f"There is a Ray and no replica in it: python -m engine serve{address}"
        ) from None


def remove() -> None:
    """End the replicas, and leave their Ray as it was."""
    from ray import serve  # pyright: ignore[reportMissingImports]

    from engine.serving.deployment import APP

    serve.delete(APP)


def leave() -> None:
    """Leave Ray; one of this process's own ends."""
    import ray  # pyright: ignore[reportMissingImports]

    with _LOCK:
        _FOUND.clear()
    ray.shutdown()


def _end(folder: str) -> None:
    leave()
    shutil.rmtree(folder, ignore_errors=True)


def _ray(host: str) -> Any:
    """Return Ray, told to report to nobody and how it is to run; it reads its environment when it is imported."""
    # Ray would have its workers step back (nice 15) for whatever else the machine does, and a replica is what a person
    # waits for: two busy processes beside it took all but a thirtieth of its time.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if host == _LOOPBACK:
        # Ray would take the machine's address in a network for it.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # pyright: ignore[reportMissingImports]
    from ray import serve  # pyright: ignore[reportMissingImports]

    logging.getLogger(serve.__name__).setLevel(logging.ERROR)
    return ray
