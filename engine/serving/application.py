"""The replicas as a manifest of Ray Serve names them: ``engine.serving.application:replicas``."""

from __future__ import annotations

from typing import Any

from ray import serve  # pyright: ignore[reportMissingImports]

from engine.serving.deployment import REPLICA, ServedReplica
from engine.settings import SETTINGS


def replicas(args: dict[str, Any]) -> Any:
    """Return the application; how many replicas, on what, and how they are watched is the manifest's to say.

    Args:
        args: none are taken.
    """
    del args
    deployment = serve.deployment(
        ServedReplica, name=REPLICA, max_ongoing_requests=SETTINGS.max_replica_runs
    )
    return deployment.bind()
