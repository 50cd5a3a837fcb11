"""Writes runs as OpenAI's completions and chat completions: texts, log-probabilities and errors."""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse

from engine.errors import BusyError, EngineError, ModelError, ParameterError
from engine.trace.records import Output, Step, Trace, chosen_token_id
from engine.trace.value_types import LogProb, TokenId
from playground.server.openai_request import OpenAIRequest
from playground.shell.guard import error_message

OPENAI_PATH = "/v1/"
"""Where the routes are whose answers and errors have OpenAI's form."""
_MIN_LOGPROB = -9999.0
"""Stands for a probability of 0, for which JSON has no logarithm; as OpenAI writes it."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_FINISH_REASONS = {"eos": "stop", "stop": "stop", "length": "length", "cancelled": "stop"}


@dataclass(frozen=True)
class TokenLogprobs:
    """A token of a text with its log-probability, in nats, and the candidates of its step."""

    token_id: TokenId
    logprob: LogProb
    top: tuple[tuple[TokenId, LogProb], ...]
    """Most probable tokens of the model's own distribution: (token_id, logprob)."""


def read_step_logprobs(steps: Iterable[Step], skip: Sequence[int], top: int) -> list[TokenLogprobs]:
    """Return the tokens that steps chose, each with its ``top`` most probable candidates.

    Args:
        steps: steps of one output, each of which writes one token.
        skip: special tokens, which are not part of the text.
        top: number of candidates.
    """
    found = []
    for step in steps:
        token_id = chosen_token_id(step)
        own = {c.token_id: c.raw_logprob for c in step.candidates}
        if token_id is None or token_id in skip or token_id not in own:
            continue
        best = sorted(step.candidates, key=lambda candidate: candidate.rank)[:top]
        listed = tuple((c.token_id, c.raw_logprob) for c in best)
        found.append(TokenLogprobs(token_id, own[token_id], listed))
    return found


def read_trace_logprobs(trace: Trace, sequence: int, top: int) -> list[TokenLogprobs]:
    """Return the tokens of an output; those of a custom method come from one pass over its text."""
    skip = special_ids(trace)
    if not trace.emitted:
        return read_step_logprobs(trace.steps_of(sequence), skip, top)
    scored = zip(trace.outputs[sequence].token_ids, trace.emitted[sequence], strict=False)
    return [
        TokenLogprobs(
            token_id,
            token.logprob,
            tuple((i, math.log(p) if p else _MIN_LOGPROB) for i, p in token.top[:top]),
        )
        for token_id, token in scored
        if token_id not in skip
    ]


def special_ids(trace: Trace) -> tuple[int, ...]:
    """Return the tokens that are not part of a text."""
    return (*trace.special_token_ids, *trace.eos_token_ids)


def format_logprobs(
    tokens: Sequence[TokenLogprobs], pieces: dict[int, str], *, is_chat: bool, offset: int = 0
) -> dict[str, Any]:
    """Return tokens in OpenAI's form.

    Args:
        tokens: the tokens.
        pieces: token id -> its piece of text.
        is_chat: the form of a chat completion, else that of a completion.
        offset: characters of the text before the first token.
    """
    if is_chat:
        content = [
            {
                **_format_token(pieces[token.token_id], token.logprob),
                "top_logprobs": [_format_token(pieces[i], value) for i, value in token.top],
            }
            for token in tokens
        ]
        return {"content": content, "refusal": None}
    names = [pieces[token.token_id] for token in tokens]
    starts = [offset + sum(map(len, names[:n])) for n in range(len(names))]
    return {
        "tokens": names,
        "token_logprobs": [max(token.logprob, _MIN_LOGPROB) for token in tokens],
        "top_logprobs": [
            {pieces[i]: max(value, _MIN_LOGPROB) for i, value in token.top} for token in tokens
        ],
        "text_offset": starts,
    }


def _format_token(piece: str, logprob: LogProb) -> dict[str, Any]:
    raw = _BYTE.findall(piece)
    # A token that is a part of a character has the names of its bytes as its piece.
    whole = "".join(f"<0x{byte}>" for byte in raw) == piece
    data = [int(byte, 16) for byte in raw] if raw and whole else list(piece.encode())
    return {"token": piece, "logprob": max(logprob, _MIN_LOGPROB), "bytes": data}


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """Return the text before the first of the stop strings."""
    places = [text.find(word) for word in stop]
    return text[: min((place for place in places if place >= 0), default=len(text))]


@dataclass
class Envelope:
    """What all answers to one request have in common.

    Args:
        request: the request.
    """

    request: OpenAIRequest
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def wrap(self, choices: list[dict[str, Any]], *, chunk: bool = False) -> dict[str, Any]:
        """Return an answer with these choices; ``chunk`` for a part of a stream."""
        kind = "text_completion"
        if self.request.is_chat:
            kind = "chat.completion.chunk" if chunk else "chat.completion"
        prefix = "chatcmpl" if self.request.is_chat else "cmpl"
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.request.model,
            "choices": choices,
        }

    def whole(self, traces: Sequence[Trace]) -> dict[str, Any]:
        """Return the answer of finished runs, one for each prompt."""
        choices: list[dict[str, Any]] = []
        for trace in traces:
            for sequence, output in enumerate(trace.outputs):
                text = cut_at_stop(output.text, self.request.stop)
                message = (
                    {"message": {"role": "assistant", "content": text, "refusal": None}}
                    if self.request.is_chat
                    else {"text": text}
                )
                choices.append(
                    {
                        "index": len(choices),
                        **message,
                        "logprobs": self._logprobs(trace, sequence),
                        "finish_reason": finish_reason(output),
                    }
                )
        notes = [str(note) for trace in traces for note in trace.notes]
        return {**self.wrap(choices), "usage": count_tokens(traces), "notes": notes}

    def _logprobs(self, trace: Trace, sequence: int) -> dict[str, Any] | None:
        if self.request.logprobs is None:
            return None
        tokens = read_trace_logprobs(trace, sequence, self.request.logprobs)
        return format_logprobs(tokens, trace.pieces, is_chat=self.request.is_chat)


def finish_reason(output: Output) -> str:
    """Return OpenAI's word for why a text ended."""
    return _FINISH_REASONS.get(output.finish_reason, "stop")


def count_tokens(traces: Iterable[Trace]) -> dict[str, int]:
    """Return the numbers of tokens of some runs, as OpenAI's ``usage``."""
    traces = list(traces)
    read = sum(len(trace.prompt_ids) for trace in traces)
    wrote = sum(len(output.token_ids) for trace in traces for output in trace.outputs)
    return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}


def error_object(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status of an error, and OpenAI's object with one sentence."""
    status = 500
    if isinstance(error, BusyError):
        status = 429
    elif isinstance(error, EngineError):
        status = 400
    name = error.parameter if isinstance(error, ParameterError) else None
    if name == "model" or isinstance(error, ModelError):
        status, name = 404, "model"
    code = error.code if isinstance(error, EngineError) else None
    return status, refusal_object(status, error_message(error), name, code)


def refusal_object(
    status: int, sentence: str, field_name: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return OpenAI's object of an error, with one sentence."""
    kind = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
    return {
        "error": {
            "message": sentence,
            "type": kind.get(status, "invalid_request_error"),
            "param": field_name,
            "code": code,
        }
    }


def error_response(error: BaseException) -> JSONResponse:
    """Return an error as a response."""
    status, body = error_object(error)
    return JSONResponse(body, status, {"Cache-Control": "no-store"})
