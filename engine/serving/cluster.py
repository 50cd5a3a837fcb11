"""The Ray cluster of this process: an existing one, or a private one that ends with it."""

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
from engine.messages import Message
from engine.program import COMMAND, install_command
from engine.run.visitor import Visitor
from engine.serving.protocol import EventStream
from engine.settings import SETTINGS

INSTALL_COMMAND = install_command("cluster")
LOCAL_RAY = "ray"
_SCHEME = "ray://"
_LOOPBACK = "127.0.0.1"
_LOCK = threading.Lock()
_HANDLES: list[Future[Any]] = []
"""At most one future: the replicas' handle or the error; empty before the first request."""


class ClusterError(EngineError):
    """No replicas are available."""

    code = "cluster"


def open_stream(fields: Mapping[str, object], visitor: Visitor, model: str) -> EventStream | None:
    """Open a stream for a run on this process's replicas; see ``asking.Ask``.

    Raises:
        ClusterError: there are no replicas.
    """
    found = find_replicas()
    if not found.done():
        return None
    try:
        handle = found.result()
    except EngineError:
        with _LOCK:
            # The next request searches again.
            _HANDLES.clear()
        raise
    from engine.serving.stream import ReplicaStream

    return ReplicaStream(handle, fields, visitor, model, uuid.uuid4().hex)


def collect_reports() -> list[dict[str, Any]]:
    """Return the report of every replica that answers; empty while none is known."""
    with _LOCK:
        known = [found for found in _HANDLES if found.done() and found.exception() is None]
    if not known:
        return []
    from engine.serving.stream import collect_reports as told

    return told(known[0].result())


def find_replicas() -> Future[Any]:
    """Start finding the replicas that PLAYGROUND_ENGINE names; return a future of their handle."""
    with _LOCK:
        if not _HANDLES:
            _HANDLES.append(Future())
            threading.Thread(
                target=_resolve_handle, args=(_HANDLES[0],), name="cluster", daemon=True
            ).start()
        return _HANDLES[0]


def use_replicas(handle: Any) -> None:
    """Use these replicas for this process's engine."""
    with _LOCK:
        _HANDLES[:] = [Future()]
        _HANDLES[0].set_result(handle)


def _resolve_handle(found: Future[Any]) -> None:
    try:
        found.set_result(_connect_or_start(SETTINGS.engine))
    except EngineError as error:
        found.set_exception(error)
    except Exception as error:
        sentence = Message("The replicas cannot be reached ({kind}).", kind=type(error).__name__)
        found.set_exception(ClusterError(sentence))


def _connect_or_start(engine: str) -> Any:
    """Return the handle of an engine's replicas; for a local Ray, start them if there are none.

    Raises:
        ClusterError: the engine is unknown, or it has no replicas.
    """
    if engine != LOCAL_RAY and not engine.startswith(_SCHEME):
        raise ClusterError(
            "PLAYGROUND_ENGINE = {engine} is not local, ray or ray://host:port.",
            engine=repr(engine),
        )
    check_ray_installed()
    if engine != LOCAL_RAY:
        join_ray(engine.removeprefix(_SCHEME))
        return get_running_handle(engine)
    try:
        join_ray("auto")
        return get_running_handle(engine)
    except ClusterError:
        from engine.serving.deployment import deploy_replicas

        cores = cores_per_replica(SETTINGS.replicas)
        start_ray(SETTINGS.replicas * cores)
        return deploy_replicas(SETTINGS.replicas, cpus_per_replica=cores)


def check_ray_installed() -> None:
    """Check that Ray is installed.

    Raises:
        ClusterError: it is not.
    """
    if find_spec("ray") is None:
        raise ClusterError("Replicas need Ray: {how}", how=INSTALL_COMMAND)


def cores_per_replica(replicas: int) -> int:
    """Return the cores for each of ``replicas`` on this machine, at least one."""
    return max(1, (os.cpu_count() or 1) // replicas)


def start_ray(cores: float, gpus: float | None = None, host: str = _LOOPBACK) -> str:
    """Start a private Ray that ends with this process; return its address.

    Args:
        cores: CPU cores shared by its replicas.
        gpus: GPUs shared by its replicas; None for all.
        host: address its processes listen on; everyone who can reach it can run code there.
    """
    ray = _import_ray(host)
    # A short path: Ray puts Unix sockets into it, and the system limits their paths.
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
    atexit.register(_shut_down_ray, folder)
    return context.address_info["address"]


def join_ray(address: str) -> None:
    """Join a Ray cluster of which this machine is a node.

    Raises:
        ClusterError: there is none.
    """
    ray = _import_ray(_LOOPBACK if address == "auto" else address.split(":", maxsplit=1)[0])
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        kind = type(error).__name__
        if address == "auto":
            raise ClusterError("There is no Ray on this machine ({kind}).", kind=kind) from None
        raise ClusterError(
            "There is no Ray at {address} ({kind}).", address=address, kind=kind
        ) from None


def get_running_handle(engine: str) -> Any:
    """Return the handle of the deployed replicas.

    Raises:
        ClusterError: none were started.
    """
    from ray import serve  # pyright: ignore[reportMissingImports]
    from ray.serve.exceptions import RayServeException  # pyright: ignore[reportMissingImports]

    from engine.serving.deployment import APP, REPLICA

    try:
        return serve.get_deployment_handle(REPLICA, APP)
    except RayServeException:
        leave_ray()
        address = "" if engine == LOCAL_RAY else f" --address {engine.removeprefix(_SCHEME)}"
        raise ClusterError(
            "There is a Ray and no replica in it: {how}", how=f"{COMMAND} serve{address}"
        ) from None


def remove_replicas() -> None:
    """Delete the replicas; the Ray cluster stays."""
    from ray import serve  # pyright: ignore[reportMissingImports]

    from engine.serving.deployment import APP

    serve.delete(APP)


def leave_ray() -> None:
    """Disconnect from Ray; a private one ends."""
    import ray  # pyright: ignore[reportMissingImports]

    with _LOCK:
        _HANDLES.clear()
    ray.shutdown()


def _shut_down_ray(folder: str) -> None:
    leave_ray()
    shutil.rmtree(folder, ignore_errors=True)


def _import_ray(host: str) -> Any:
    """Import Ray, configured first: it reads its environment when it is imported."""
    # Ray gives its workers nice 15. Two other busy processes then took all but a thirtieth of a
    # replica's time, while a person waits for it.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if host == _LOOPBACK:
        # Otherwise Ray replaces the loopback address by the machine's network address.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # pyright: ignore[reportMissingImports]
    from ray import serve  # pyright: ignore[reportMissingImports]

    logging.getLogger(serve.__name__).setLevel(logging.ERROR)
    return ray
