"""Opens the model server of a run: asks what it reports, and for the ids of the prompt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.endpoints.http_client import EndpointClient
from engine.endpoints.probe import ServerReport, probe
from engine.endpoints.server_lookup import ModelServer, PromptTokens
from engine.errors import ParameterError
from engine.live.plan import LivePlan, check_able
from engine.live.run_limit import one_of_few
from engine.messages import Message
from engine.run.request import DecodeRequest
from engine.run.visitor import VISITOR
from engine.sources.source import Endpoint, Source


@contextmanager
def connect(request: DecodeRequest, cancelled: threading.Event) -> Iterator[ModelServer]:
    """Yield the server of a run, which counts among the few that go on at a time.

    Args:
        request: the run; its model is named ``endpoint:ADDRESS#MODEL``.
        cancelled: set to end a request that is under way.

    Raises:
        EngineError: the server does not answer, or too many runs go on.
    """
    source = Source.parse(request.model)
    assert isinstance(source, Endpoint)
    with (
        one_of_few(VISITOR.get().address),
        EndpointClient(source.address, cancelled=cancelled) as client,
    ):
        yield ModelServer(client, source.model)


@contextmanager
def open_server(
    request: DecodeRequest, plan: LivePlan, cancelled: threading.Event
) -> Iterator[tuple[ModelServer, ServerReport, PromptTokens | None]]:
    """Yield the server, what it reports, and the prompt's tokens; None if it takes texts only.

    Args:
        request: see ``connect``.
        plan: what it asks of the server.
        cancelled: see ``connect``.

    Raises:
        EngineError: the server does not answer, or cannot do it.
    """
    with connect(request, cancelled) as server:
        able = probe(server)
        check_able(plan, able, server.dialect)
        yield server, able, _read_prompt(server, request)


def _read_prompt(server: ModelServer, request: DecodeRequest) -> PromptTokens | None:
    """Return the prompt's tokens; None for a server that takes texts only."""
    if request.input_ids is not None:
        if not server.dialect.takes_ids:
            raise ParameterError(
                "input_ids", "…", Message("this server continues texts only, so give a prompt")
            )
        return PromptTokens(tuple(request.input_ids), server.name_ids(request.input_ids))
    if not server.dialect.takes_ids:
        return None
    if request.messages is not None:
        return server.encode_messages(request.messages)
    return server.encode(request.prompt or "")
