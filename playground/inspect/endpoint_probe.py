"""Asks a model server, for the page, what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.endpoints.http_client import EndpointClient
from engine.endpoints.probe import probe
from engine.endpoints.server_lookup import ModelServer
from engine.live.run_limit import one_of_few
from engine.run.visitor import VISITOR
from engine.sources.endpoint_address import parse_endpoint_name
from playground.jobs.registry import JOBS, JobKind

ACTIONS = ("probe",)
_PROBE = JobKind("probe")


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a server for two tokens, and return in ``says`` what it reports, as one line.

    Args:
        payload: ``model``, the model as ``endpoint:ADDRESS#MODEL``; ``press``, the id that stops it.

    Raises:
        EngineError: the address is not allowed, or the server does not answer or not usefully.
        StoppedError: the visitor stopped it, or left.
    """
    address, model = parse_endpoint_name(str(payload.get("model") or ""))
    with (
        JOBS.run(_PROBE, payload.get("press")) as job,
        one_of_few(VISITOR.get().address),
        EndpointClient(address, cancelled=job.cancelled) as client,
    ):
        return {"says": probe(ModelServer(client, model)).describe()}
