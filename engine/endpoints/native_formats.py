"""Answers of the native interfaces of llama.cpp, Ollama and Text Generation Inference (TGI)."""

from __future__ import annotations

from collections.abc import Iterator

from engine.endpoints.answer import Answer, ReportedStep, ReportedToken
from engine.endpoints.fields import (
    iter_objects,
    read_count,
    read_ids,
    read_list,
    read_logprob,
    read_object,
    read_seconds,
    read_text,
)
from engine.endpoints.openai_format import check_unfinished, read_steps, read_timings
from engine.errors import TraceError
from engine.trace.value_types import JsonObject, JsonValue

_NANOSECONDS = 1e9
_LLAMACPP_FINISH = {"limit": "length", "eos": "eos", "word": "stop"}
_OLLAMA_FINISH = {"length": "length"}
_TGI_FINISH = {"length": "length", "eos_token": "eos", "stop_sequence": "stop"}


def is_llamacpp(event: JsonObject) -> bool:
    """Return True if a JSON object is an answer of llama.cpp's native interface."""
    return "completion_probabilities" in event or ("content" in event and "stop" in event)


def read_llamacpp_event(answer: Answer, event: JsonObject) -> None:
    """Add an answer of llama.cpp, or one event of its stream.

    Raises:
        TraceError: a field has another type, or the events are out of order.
    """
    answer.server, answer.lists_best = "llamacpp", True
    if answer.distribution == "unknown":
        answer.distribution = "model"
    choice = answer.choice(read_count(event.get("index"), "index") or 0)
    steps = list(
        read_steps(answer, event.get("completion_probabilities"), "completion_probabilities")
    )
    check_unfinished(choice, steps)
    choice.steps += steps
    choice.text += read_text(event.get("content"), "content")
    choice.ids += read_ids(event.get("tokens"), "tokens")
    counted = read_count(event.get("tokens_predicted"), "tokens_predicted")
    # Every event of a stream counts the tokens so far.
    if steps and counted is not None and event.get("stop") is False and counted < len(choice.steps):
        raise TraceError(
            "Events of the stream are repeated or out of order at token {n}.", n=counted
        )
    answer.completion_tokens = counted
    answer.prompt_tokens = read_count(event.get("tokens_evaluated"), "tokens_evaluated")
    answer.model = read_text(event.get("model"), "model") or answer.model
    if isinstance(event.get("prompt"), str):
        answer.prompt = read_text(event["prompt"], "prompt")
    answer.settings |= read_object(event.get("generation_settings"), "generation_settings")
    read_timings(answer, event)
    if event.get("stop"):
        kind = read_text(event.get("stop_type"), "stop_type")
        choice.finish = _LLAMACPP_FINISH.get(kind, "stop")


def is_ollama(event: JsonObject) -> bool:
    """Return True if a JSON object is an answer of Ollama's native interface."""
    return "done" in event and ("response" in event or "message" in event)


def read_ollama_event(answer: Answer, event: JsonObject) -> None:
    """Add an answer of Ollama, or one line of its stream.

    Raises:
        TraceError: a field has another type, or the lines are out of order.
    """
    answer.server = "ollama"
    answer.model = read_text(event.get("model"), "model") or answer.model
    choice = answer.choice(0)
    message = read_object(event.get("message"), "message")
    steps = list(read_steps(answer, event.get("logprobs"), "logprobs"))
    check_unfinished(choice, steps)
    choice.steps += steps
    choice.text += read_text(message.get("content"), "content") or read_text(
        event.get("response"), "response"
    )
    if event.get("done"):
        reason = read_text(event.get("done_reason"), "done_reason")
        choice.finish = _OLLAMA_FINISH.get(reason, "stop")
        answer.completion_tokens = read_count(event.get("eval_count"), "eval_count")
        answer.prompt_tokens = read_count(event.get("prompt_eval_count"), "prompt_eval_count")
        durations = ("prompt_eval_duration", "eval_duration")
        answer.set_durations(*(read_seconds(event.get(n), _NANOSECONDS) for n in durations))


def is_tgi(event: JsonObject) -> bool:
    """Return True if a JSON object is an answer of Text Generation Inference."""
    return "generated_text" in event or isinstance(event.get("token"), dict)


def read_tgi_event(answer: Answer, event: JsonObject) -> None:
    """Add an answer of Text Generation Inference, or one event of its stream.

    Raises:
        TraceError: a field has another type, or the events are out of order.
    """
    answer.server = "tgi"
    choice, details = answer.choice(0), read_object(event.get("details"), "details")
    token = read_object(event.get("token"), "token")
    if token:
        check_unfinished(choice, token)
        at = read_count(event.get("index"), "index")
        if at is not None and at != len(choice.steps) + 1:
            raise TraceError(
                "Events of the stream are repeated or out of order at token {n}.", n=at
            )
        choice.steps.append(_tgi_step(token, event.get("top_tokens")))
        choice.text += "" if token.get("special") else read_text(token.get("text"), "text")
    else:
        choice.text = read_text(event.get("generated_text"), "generated_text")
        choice.steps += _tgi_steps(details)
    for place in iter_objects(details.get("prefill"), "prefill"):
        known = _tgi_token(place)
        if known.id is not None:
            answer.prompt_ids += (known.id,)
            answer.names[known.id] = known.raw or b""
    if details:
        reason = read_text(details.get("finish_reason"), "finish_reason")
        choice.finish = _TGI_FINISH.get(reason, "stop")
        answer.completion_tokens = read_count(details.get("generated_tokens"), "generated_tokens")
        if details.get("seed") is not None:
            answer.settings["seed"] = details["seed"]


def _tgi_steps(details: JsonObject) -> Iterator[ReportedStep]:
    tokens = list(iter_objects(details.get("tokens"), "tokens"))
    tops = read_list(details.get("top_tokens"), "top_tokens")
    for number, token in enumerate(tokens):
        yield _tgi_step(token, tops[number] if number < len(tops) else None)


def _tgi_step(token: JsonObject, top: JsonValue) -> ReportedStep:
    listed = iter_objects(top, "top_tokens")
    return ReportedStep(_tgi_token(token), tuple(_tgi_token(item) for item in listed))


def _tgi_token(fields: JsonObject) -> ReportedToken:
    value = fields.get("logprob")
    return ReportedToken(
        None if value is None else read_logprob(value, "logprob"),
        read_text(fields.get("text"), "text").encode(),
        read_count(fields.get("id"), "id"),
    )
