"""Runs as streams: the parts of a text in OpenAI's form, sent while the run decodes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from functools import cache
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from engine import DecodeRequest
from engine.messages import to_json
from engine.run.decoding import trace_of
from engine.run.visitor import VISITOR, Visitor
from engine.serving import decode
from engine.settings import SETTINGS
from engine.trace.events import Event, Failed, Finished, Started, StepRecorded, TextDelta
from engine.trace.records import Trace
from playground.jobs.zerogpu import on_gpu, server_threads
from playground.server.openai_request import OpenAIRequest
from playground.server.openai_response import (
    Envelope,
    TokenLogprobs,
    count_tokens,
    cut_at_stop,
    error_object,
    finish_reason,
    format_logprobs,
    read_step_logprobs,
    read_trace_logprobs,
    special_ids,
)
from playground.shell import lazy_imports
from playground.shell.visitors import visitor_from_request

_POLL_S = 0.25
"""Seconds between checks that the program is still connected."""
_WAITING = b": waiting\n\n"
_DONE = b"data: [DONE]\n\n"
_READERS = CapacityLimiter(server_threads())
"""Threads that wait for events; Starlette's own are for short work."""


class DisconnectedError(Exception):
    """The program has closed its connection."""


async def stream_events(
    run_request: DecodeRequest, request: Request, interval_s: float
) -> AsyncGenerator[list[Event], None]:
    """Yield the events of a run in batches, an empty one while nothing happens.

    The run ends as soon as its reader leaves or the program disconnects.

    Args:
        run_request: the run.
        request: the program's HTTP request.
        interval_s: least seconds between two batches.

    Raises:
        DisconnectedError: the program has closed its connection.
    """
    await to_thread.run_sync(lazy_imports.wait_until_loaded, limiter=_READERS)
    batches = _decode_on_gpu()(run_request, visitor_from_request(request), interval_s)
    try:
        while (
            batch := await to_thread.run_sync(next, batches, None, limiter=_READERS)
        ) is not None:
            if await request.is_disconnected():
                raise DisconnectedError
            yield batch
    finally:
        batches.close()


def _decode_batches(
    run_request: DecodeRequest, visitor: Visitor, interval_s: float
) -> Generator[list[Event], None, None]:
    """Decode a run and yield its events in batches; closing it ends the run."""
    VISITOR.set(visitor)
    run = decode(run_request)
    try:
        yield from run.batches(interval_s, _POLL_S)
    finally:
        run.close()


@cache
def _decode_on_gpu() -> Callable[..., Generator[list[Event], None, None]]:
    return on_gpu(_decode_batches)


async def decode_all(openai_request: OpenAIRequest, request: Request) -> list[Trace]:
    """Return the finished runs of a request, one after the other.

    Raises:
        EngineError: a run failed.
        DisconnectedError: the program has closed its connection.
    """
    traces = []
    for run_request in openai_request.runs:
        last = None
        async for batch in stream_events(run_request, request, 0.0):
            last = batch[-1] if batch else last
        traces.append(trace_of(last))
    return traces


def _pack(answer: dict[str, Any]) -> bytes:
    return f"data: {to_json(answer)}\n\n".encode()


async def stream_answer(
    openai_request: OpenAIRequest, request: Request
) -> AsyncGenerator[bytes, None]:
    """Yield the server-sent events of a request; an error before the first one is raised.

    Raises:
        EngineError: the first run failed before it began to wait, to load or to decode.
    """
    envelope, traces, begun = Envelope(openai_request), [], False
    try:
        for number, run_request in enumerate(openai_request.runs):
            parts, last = _RunParts(envelope, number * openai_request.n), None
            async for batch in stream_events(run_request, request, 1 / SETTINGS.updates_per_s):
                last = batch[-1] if batch else last
                if begun or not isinstance(last, Failed | None):
                    begun = True
                    yield b"".join(map(_pack, parts.read(batch))) or _WAITING
            traces.append(trace_of(last))
    except DisconnectedError:
        return
    except BaseException as error:
        if not begun or not isinstance(error, Exception):
            raise
        yield _pack(error_object(error)[1])
    else:
        if openai_request.include_usage:
            yield _pack({**envelope.wrap([], chunk=True), "usage": count_tokens(traces)})
    yield _DONE


class _RunParts:
    """Turns the events of a run into chunks."""

    def __init__(self, envelope: Envelope, first: int) -> None:
        self.envelope, self.request, self.first = envelope, envelope.request, first
        self.pieces: dict[int, str] = {}
        self.skip: Sequence[int] = ()
        self.texts: dict[int, _Part] = {}

    def read(self, batch: Sequence[Event]) -> Iterator[dict[str, Any]]:
        """Yield the chunks that a batch of events adds."""
        for event in batch:
            match event:
                case Started():
                    self.pieces |= event.header.pieces
                    self.skip = special_ids(event.header)
                case StepRecorded():
                    self.pieces |= event.pieces
                    self._add_step(event)
                case TextDelta():
                    part = self._part(event.sequence)
                    part.text = part.text[: event.keep_chars] + event.text
                case Finished():
                    yield from self._finish(event.trace)
                    return
        if not self.request.revises:
            for sequence, part in self.texts.items():
                if new := part.take(self.request.stop, ended=False):
                    yield self._chunk(sequence, new, part, None)

    def _part(self, sequence: int) -> _Part:
        return self.texts.setdefault(sequence, _Part())

    def _add_step(self, event: StepRecorded) -> None:
        if self.request.logprobs is not None and not self.request.revises:
            found = read_step_logprobs([event.step], self.skip, self.request.logprobs)
            self._part(event.step.sequence).tokens += found

    def _finish(self, trace: Trace) -> Iterator[dict[str, Any]]:
        self.pieces |= trace.pieces
        for sequence, output in enumerate(trace.outputs):
            part = self._part(sequence)
            part.text = output.text
            if self.request.logprobs is not None and self.request.revises:
                part.tokens = read_trace_logprobs(trace, sequence, self.request.logprobs)
            new = part.take(self.request.stop, ended=True)
            yield self._chunk(sequence, new, part, finish_reason(output))

    def _chunk(self, sequence: int, new: str, part: _Part, reason: str | None) -> dict[str, Any]:
        """Return a chunk with the text and tokens that have not been sent."""
        tokens, part.tokens, offset = part.tokens, [], part.offset
        part.offset += sum(len(self.pieces[token.token_id]) for token in tokens)
        known = self.request.logprobs is not None
        is_chat = self.request.is_chat
        role = {} if part.begun or not is_chat else {"role": "assistant"}
        part.begun = True
        choice = {
            "index": self.first + sequence,
            **({"delta": {**role, "content": new}} if is_chat else {"text": new}),
            "logprobs": format_logprobs(tokens, self.pieces, is_chat=is_chat, offset=offset)
            if known
            else None,
            "finish_reason": reason,
        }
        return self.envelope.wrap([choice], chunk=True)


class _Part:
    """A text that grows, and how much of it has been sent."""

    def __init__(self) -> None:
        self.text, self.sent, self.offset = "", 0, 0
        self.tokens: list[TokenLogprobs] = []
        self.begun = False

    def take(self, stop: Sequence[str], *, ended: bool) -> str:
        """Return the text to send now: what may still become a stop string waits."""
        shown = cut_at_stop(self.text, stop)
        if not ended and shown == self.text:
            shown = shown[: len(shown) - max((len(word) - 1 for word in stop), default=0)]
        new = shown[self.sent :]
        self.sent = max(self.sent, len(shown))
        return new
