"""A run of a model that a server computes, with the events of a local run."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from engine.endpoints.answer import ReportedStep
from engine.endpoints.dialects import Completion
from engine.endpoints.probe import ServerReport, unusable_answer
from engine.endpoints.read_answer import AnswerReader
from engine.endpoints.server_lookup import ModelServer
from engine.errors import Cancelled, StoppedError, TraceError
from engine.live.end_tokens import EndTokens
from engine.live.open_server import open_server
from engine.live.own_draw import OwnSampler
from engine.live.plan import NEED_WHOLE_VOCABULARY, make_plan
from engine.live.record import LiveRecord
from engine.live.token_by_token import ask_next_token, draw_tokens
from engine.messages import Message
from engine.run.jobs import EventCallback, JobStream
from engine.run.request import DecodeRequest, check_request
from engine.run.run_counters import CountedRun
from engine.settings import SETTINGS
from engine.sources.endpoint_address import PREFIX
from engine.sources.source import Source
from engine.trace.events import Finished, Started
from engine.trace.records import Trace


def is_on_server(request: DecodeRequest) -> bool:
    """Return True if a server computes the model of a request."""
    return isinstance(request.model, str) and request.model.startswith(PREFIX)


def check_values(request: DecodeRequest) -> int:
    """Check a request, that of a model behind an address by what servers can do.

    Returns:
        The number of texts that its run makes.

    Raises:
        EngineError: a value is not valid, or no server can do it.
    """
    if is_on_server(request):
        # An address that is not allowed is refused as well.
        Source.parse(request.model)
        if _needs_whole_vocabulary(request):
            # Imported late, as below: the page declares itself before transformers is loaded.
            from engine.live.whole_run import check_whole_request

            return check_whole_request(request).config.num_return_sequences
        make_plan(request)
        return 1
    return check_request(request).config.num_return_sequences


def decode_on_server(request: DecodeRequest) -> JobStream:
    """Start a run on a server; see ``engine.run.decoding.decode`` for its events."""
    if _needs_whole_vocabulary(request):
        from engine.live.whole_run import WholeRun

        return JobStream(partial(CountedRun, request.strategy, partial(WholeRun, request)))
    return JobStream(partial(LiveRun, request))


def _needs_whole_vocabulary(request: DecodeRequest) -> bool:
    return request.strategy in NEED_WHOLE_VOCABULARY


class LiveRun:
    """A run on a server.

    Args:
        request: the run; its model is named ``endpoint:ADDRESS#MODEL``.
        send: receives events.
        cancelled: set to stop it.
    """

    def __init__(
        self, request: DecodeRequest, send: EventCallback, cancelled: threading.Event
    ) -> None:
        self.request, self.send, self.cancelled = request, send, cancelled
        self.record: LiveRecord | None = None

    def execute(self) -> None:
        """Run it.

        Raises:
            EngineError: the server cannot do it, or its answer cannot be used.
        """
        request = self.request
        plan = make_plan(request)
        with open_server(request, plan, self.cancelled) as (server, able, tokens):
            host = server.client.address.netloc
            record = LiveRecord(request, plan, host, tokens, able.vocab_size, self.send)
            self.record = record
            self.send(Started(record.header(server.model, able.server)))
            try:
                (self._draw if plan.own else self._stream)(server, able, record)
            except TraceError as error:
                raise unusable_answer(server.client, error) from None
            except Cancelled:
                if not record.answer.choices:
                    raise StoppedError("Stopped before it began.") from None
        self.send(Finished(record.trace()))

    def partial_trace(self) -> Trace | None:
        """Return what the server had said before a failure."""
        record = self.record
        return record.trace() if record is not None and record.answer.choices else None

    def log_fields(self) -> dict[str, Any]:
        """Return the number of tokens."""
        steps = (
            0
            if self.record is None
            else sum(len(choice.steps) for choice in self.record.answer.choices.values())
        )
        return {"tokens": steps}

    def _ask(self, server: ModelServer, able: ServerReport, record: LiveRecord) -> Completion:
        request, plan = self.request, record.plan
        return Completion(
            server.model,
            () if record.tokens is None else record.tokens.ids,
            request.prompt,
            request.messages,
            plan.new_tokens,
            min(able.candidates, max(request.top_candidates, 1)),
            plan.sampler,
            plan.stop,
        )

    def _stream(self, server: ModelServer, able: ServerReport, record: LiveRecord) -> None:
        """Let the server choose all tokens, and record them as they come."""
        path, body = server.dialect.request(self._ask(server, able, record), stream=True)
        reader = AnswerReader()
        record.answer, named = reader.answer, 0
        for event in server.client.stream(path, body):
            reader.add(event)
            named = server.name_answer(reader.answer, named)
            record.publish()
            if self.cancelled.is_set():
                raise Cancelled
        record.publish()

    def _draw(self, server: ModelServer, able: ServerReport, record: LiveRecord) -> None:
        """Ask for one token at a time, and draw it here."""
        assert record.tokens is not None
        plan, until = record.plan, time.monotonic() + SETTINGS.max_runtime_s
        ask = partial(ask_next_token, server, able)
        sampler = OwnSampler(plan.sampler, able.vocab_size)
        ends = EndTokens(server, plan.end_ids or able.end_ids)
        for new in draw_tokens(ask, sampler, plan, record.tokens.ids, ends):
            if record.draws:
                choice = record.answer.choice(0)
            else:
                record.answer = new.next.answer
                record.answer.completion_tokens = None
                choice = record.answer.choice(0)
                choice.steps, choice.ids = [], []
            record.draws.append(new.drawn)
            choice.steps.append(ReportedStep(new.drawn.token, new.next.step.top))
            choice.text, choice.finish = new.text, new.finish
            record.publish()
            if new.finish:
                return
            if self.cancelled.is_set():
                raise Cancelled
            if time.monotonic() > until:
                limit = f"{SETTINGS.max_runtime_s:g}"
                record.notes.append(Message("The run reached the limit of {s} seconds.", s=limit))
                return
        record.answer.choice(0).finish = "length"
