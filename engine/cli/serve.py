"""The command ``serve``: runs decoding replicas, locally or in a Ray cluster, until a signal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

from engine.cli.argument_values import Commands
from engine.program import PAGE_COMMAND


def add(commands: Commands) -> None:
    """Add the command ``serve``."""
    serve = commands.add_parser("serve", help="start replicas that decode for the web server")
    serve.add_argument(
        "--replicas", type=_positive_int, default=2, help="number of replicas; default: 2"
    )
    serve.add_argument(
        "--gpus-per-replica",
        type=_non_negative_float,
        default=0.0,
        metavar="F",
        help="GPUs per replica, also a fraction; default: 0",
    )
    serve.add_argument(
        "--cpus-per-replica",
        type=_positive_int,
        metavar="C",
        help="CPU cores per replica; default: an equal share of the machine",
    )
    serve.add_argument(
        "--address", metavar="HOST:PORT", help="join this Ray cluster instead of starting one"
    )
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        help="address that the new Ray listens on; use others than 127.0.0.1 only in a closed network",
    )
    serve.set_defaults(handler=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from engine.serving import cluster

    cluster.check_ray_installed()
    replicas, gpus = arguments.replicas, arguments.gpus_per_replica
    cores = arguments.cpus_per_replica or cluster.cores_per_replica(replicas)
    address = arguments.address
    if address:
        cluster.join_ray(address)
    else:
        address = cluster.start_ray(
            replicas * cores, gpus=None if gpus else 0.0, host=arguments.host
        )
    # Imported late: Ray reads its environment variables when it is imported.
    from engine.serving.deployment import deploy_replicas

    ended = threading.Event()
    # Ray's own signal handlers would leave its processes running.
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ended.set())
    try:
        deploy_replicas(replicas, gpus, cores)
        count = "1 replica is" if replicas == 1 else f"{replicas} replicas are"
        # A client that joins by address sends a token only if RAY_AUTH_MODE is set there, too.
        mode = os.environ.get("RAY_AUTH_MODE")
        token = f"RAY_AUTH_MODE={mode} " if mode else ""
        sys.stdout.write(
            f"{count} ready: {token}PLAYGROUND_ENGINE=ray://{address} {PAGE_COMMAND}\n"
        )
        sys.stdout.flush()
        ended.wait()
    finally:
        if arguments.address:  # a joined cluster goes on, so the deployment is removed from it
            cluster.remove_replicas()
        cluster.leave_ray()
    return 0


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return value


def _non_negative_float(text: str) -> float:
    value = float(text)
    if value < 0:
        raise argparse.ArgumentTypeError("it must not be negative")
    return value
