"""The replicas as a deployment of Ray Serve."""

from __future__ import annotations

from typing import Any

from ray import serve  # pyright: ignore[reportMissingImports]
from ray.serve.schema import LoggingConfig  # pyright: ignore[reportMissingImports]

from engine.serving.replica import Replica
from engine.settings import SETTINGS

APP = "playground"
REPLICA = "Replica"
_SHUTDOWN_S = 5.0
"""Runs that go on when a replica is to end go on elsewhere."""


class ServedReplica(Replica):
    """A replica that tells Serve's router which models it has been asked for."""

    async def note_model(self) -> None:
        """Say which model the request needs, so that further ones come here, too."""
        name = serve.get_multiplexed_model_id()
        if name:
            # Its types say that it returns a coroutine where it takes one.
            noted: Any = self._noted
            await noted(name)

    @serve.multiplexed(max_num_models_per_replica=SETTINGS.max_loaded_models)
    async def _noted(self, name: str) -> str:
        # The run itself loads it, in its place in line and telling how that goes on.
        return name


def deploy(
    replicas: int,
    gpus_per_replica: float = 0.0,
    cpus_per_replica: float = 1.0,
    replica: type[Replica] = ServedReplica,
) -> Any:
    """Start replicas in the Ray that this process is connected to, and return the handle once they are ready.

    Args:
        replicas: how many, at least 1.
        gpus_per_replica: a share of a GPU, or several.
        cpus_per_replica: cores; Ray lets a replica's torch have as many threads.
        replica: what is deployed.
    """
    deployment = serve.deployment(
        replica,
        name=REPLICA,
        num_replicas=replicas,
        max_ongoing_requests=SETTINGS.max_replica_runs,
        max_queued_requests=SETTINGS.max_waiting_runs * replicas,
        ray_actor_options={"num_cpus": cpus_per_replica, "num_gpus": gpus_per_replica},
        graceful_shutdown_timeout_s=_SHUTDOWN_S,
        # A replica that was killed is missed by this alone.
        health_check_period_s=1.0,
        health_check_timeout_s=60.0,
    )
    # Nobody speaks HTTP with the replicas.
    serve.start(proxy_location="Disabled")
    quiet = LoggingConfig(log_level="WARNING", enable_access_log=False)
    return serve.run(deployment.bind(), name=APP, route_prefix=None, logging_config=quiet)
