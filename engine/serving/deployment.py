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
"""Runs of a replica that shuts down continue on another one."""


class ServedReplica(Replica):
    """A replica that reports requested models to Serve's router."""

    async def note_model(self) -> None:
        """Register the request's model, so that further requests for it come here."""
        name = serve.get_multiplexed_model_id()
        if name:
            # Serve's type hints are wrong about this coroutine.
            noted: Any = self._register_model
            await noted(name)

    @serve.multiplexed(max_num_models_per_replica=SETTINGS.max_loaded_models)
    async def _register_model(self, name: str) -> str:
        # Loads nothing: the run does, at its turn in the queue and with progress events.
        return name


def deploy_replicas(
    replicas: int,
    gpus_per_replica: float = 0.0,
    cpus_per_replica: float = 1.0,
    replica: type[Replica] = ServedReplica,
) -> Any:
    """Start replicas in the connected Ray; return the handle once they are ready.

    Args:
        replicas: number of replicas, at least 1.
        gpus_per_replica: GPUs, or a fraction of one.
        cpus_per_replica: cores; Ray limits a replica's torch to as many threads.
        replica: the class to deploy.
    """
    deployment = serve.deployment(
        name=REPLICA,
        num_replicas=replicas,
        max_ongoing_requests=SETTINGS.max_replica_runs,
        max_queued_requests=SETTINGS.max_waiting_runs * replicas,
        ray_actor_options={"num_cpus": cpus_per_replica, "num_gpus": gpus_per_replica},
        graceful_shutdown_timeout_s=_SHUTDOWN_S,
        # Only the health check detects a killed replica.
        health_check_period_s=1.0,
        health_check_timeout_s=60.0,
    )
    # Replicas get no HTTP requests.
    serve.start(proxy_location="Disabled")
    quiet = LoggingConfig(log_level="WARNING", enable_access_log=False)
    return serve.run(deployment(replica).bind(), name=APP, route_prefix=None, logging_config=quiet)
