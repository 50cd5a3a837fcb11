"""The Ray Serve application for a manifest: ``engine.serving.application:replicas``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray import serve  # pyright: ignore[reportMissingImports]

from engine.serving.deployment import REPLICA, ServedReplica
from engine.settings import SETTINGS


def replicas(args: Mapping[str, object]) -> Any:
    """Return the application; the manifest sets replica count, resources and health checks.

    Args:
        args: unused.
    """
    del args
    deployment = serve.deployment(name=REPLICA, max_ongoing_requests=SETTINGS.max_replica_runs)
    return deployment(ServedReplica).bind()
