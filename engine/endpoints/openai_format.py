"""Answers in the two shapes of OpenAI's interface, which vLLM, llama.cpp and Ollama also write."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from engine.endpoints.answer import Answer, AnswerText, ReportedStep, ReportedToken
from engine.endpoints.fields import (
    iter_objects,
    read_count,
    read_ids,
    read_list,
    read_logprob,
    read_object,
    read_probability,
    read_seconds,
    read_text,
    wrong_shape,
)
from engine.errors import TraceError
from engine.trace.value_types import JsonObject, JsonValue

_ID_NAME = "token_id:"
"""vLLM writes ids in place of texts, if asked for them."""
_BYTES_NAME = "bytes:"
"""OpenAI's older interface writes a part of a character like this, with escapes."""
_VLLM_FIELDS = frozenset(("kv_transfer_params", "prompt_logprobs", "routed_experts", "stop_reason"))
_FINISH = {"length": "length", "tool_calls": "stop", "function_call": "stop"}


def is_openai(event: JsonObject) -> bool:
    """Return True if a JSON object has the shape of OpenAI's answers."""
    return "choices" in event


def read_event(answer: Answer, event: JsonObject) -> None:
    """Add an answer, or one event of its stream.

    Raises:
        TraceError: a field has another type, or the events are out of order.
    """
    _find_server(answer, event)
    answer.model = read_text(event.get("model"), "model") or answer.model
    _read_usage(answer, read_object(event.get("usage"), "usage"))
    read_timings(answer, event)
    for choice in iter_objects(event.get("choices"), "choices"):
        _read_choice(answer, choice)
        _read_prompt(answer, choice)
    _read_prompt(answer, event)


def _find_server(answer: Answer, event: JsonObject) -> None:
    """Name the server by the fields that only it writes."""
    if answer.server != "unknown":
        return
    fingerprint = read_text(event.get("system_fingerprint"), "system_fingerprint")
    choices = list(iter_objects(event.get("choices"), "choices"))
    # Before the test for OpenAI, whose fingerprints begin in the same way.
    if fingerprint == "fp_ollama":
        answer.server = "ollama"
    elif fingerprint.startswith("vllm") or any(
        not _VLLM_FIELDS.isdisjoint(fields) or "token_ids" in fields for fields in (event, *choices)
    ):
        answer.server, answer.distribution = "vllm", "model"
    elif "timings" in event or any(_has_ids(choice) for choice in choices):
        answer.server, answer.distribution, answer.lists_best = "llamacpp", "model", True
    elif fingerprint.startswith("fp_"):
        answer.server = "openai"


def _has_ids(choice: JsonObject) -> bool:
    logprobs = read_object(choice.get("logprobs"), "logprobs")
    return any("id" in item for item in iter_objects(logprobs.get("content"), "content"))


def _read_usage(answer: Answer, usage: JsonObject) -> None:
    for name in ("completion_tokens", "prompt_tokens"):
        found = read_count(usage.get(name), name)
        if found is not None:
            setattr(answer, name, found)


def read_timings(answer: Answer, event: JsonObject) -> None:
    """Add the times that llama.cpp reports in both of its interfaces."""
    timings = read_object(event.get("timings"), "timings")
    answer.set_durations(
        *(read_seconds(timings.get(n), 1000) for n in ("prompt_ms", "predicted_ms"))
    )


def _read_choice(answer: Answer, fields: JsonObject) -> None:
    index = read_count(fields.get("index"), "index") or 0
    choice = answer.choice(index)
    # A whole answer has message, an event of a stream delta; the older interface has text.
    message = read_object(fields.get("message") or fields.get("delta"), "message")
    text = read_text(message.get("content"), "content") or read_text(fields.get("text"), "text")
    steps = list(_iter_steps(answer, read_object(fields.get("logprobs"), "logprobs")))
    check_unfinished(choice, steps or text)
    choice.text += text
    choice.steps += steps
    choice.ids += read_ids(fields.get("token_ids"), "token_ids")
    _read_finish(choice, fields)


def check_unfinished(choice: AnswerText, more: object) -> None:
    """Check that a text which has ended gets nothing more.

    Raises:
        TraceError: it does.
    """
    if choice.finish is not None and more:
        raise TraceError(
            "The stream has tokens after the end of its text: events are repeated or out of order."
        )


def _read_finish(choice: AnswerText, fields: JsonObject) -> None:
    finish = read_text(fields.get("finish_reason"), "finish_reason")
    if not finish:
        return
    # vLLM names the stop string; null is the end of the text.
    ended = finish == "stop" and "stop_reason" in fields and fields["stop_reason"] is None
    choice.finish = "eos" if ended else _FINISH.get(finish, "stop")


def _read_prompt(answer: Answer, fields: JsonObject) -> None:
    """Read the ids of the prompt, and the texts of ids from its log-probabilities."""
    ids = read_ids(fields.get("prompt_token_ids"), "prompt_token_ids")
    if ids:
        answer.prompt_ids = tuple(ids)
    for place in read_list(fields.get("prompt_logprobs"), "prompt_logprobs"):
        answer.prompt_logprobs = True
        for name, item in read_object(place, "prompt_logprobs").items():
            text = read_object(item, "prompt_logprobs").get("decoded_token")
            if text and name.isascii() and name.isdigit() and len(name) < 10:
                answer.names[int(name)] = read_text(text, "decoded_token").encode()


def _iter_steps(answer: Answer, logprobs: JsonObject) -> Iterator[ReportedStep]:
    if "tokens" in logprobs:
        yield from _iter_older_steps(logprobs)
    yield from read_steps(answer, logprobs.get("content"), "content")
    yield from read_steps(answer, logprobs.get("refusal"), "refusal")


def read_steps(answer: Answer, items: JsonValue, name: str) -> Iterator[ReportedStep]:
    """Yield the steps of a list of tokens, each with a list of the most probable ones."""
    for item in iter_objects(items, name):
        top = item.get("top_logprobs", item.get("top_probs"))
        chosen = _read_token(item)
        # The bytes that llama.cpp gives with its ids may include those of earlier tokens.
        if "id" not in item and chosen.id is not None and chosen.raw is not None:
            answer.names.setdefault(chosen.id, chosen.raw)
        # llama.cpp's post_sampling_probs: probabilities after its filters.
        if "prob" in item:
            answer.distribution = "sampled"
        yield ReportedStep(
            chosen, tuple(_read_token(other) for other in iter_objects(top, "top_logprobs"))
        )


def _read_token(item: JsonObject) -> ReportedToken:
    text = read_text(item.get("token"), "token")
    logprob = (
        read_probability(item["prob"], "prob")
        if "prob" in item
        else read_logprob(item.get("logprob"), "logprob")
    )
    raw, token_id = _read_name(text)
    if item.get("bytes") is not None:
        found = _read_bytes(item["bytes"])
        # With ids in place of texts, vLLM gives the bytes of the id's name.
        raw = None if found == text.encode() and raw is None else found
    return ReportedToken(
        logprob, raw, read_count(item.get("id"), "id") if "id" in item else token_id
    )


def _read_name(text: str) -> tuple[bytes | None, int | None]:
    """Return the bytes and the id of a token by the name that a server gives it."""
    number = text.removeprefix(_ID_NAME)
    if number != text and number.isascii() and number.isdigit() and len(number) < 10:
        return None, int(number)
    if text.startswith(_BYTES_NAME):
        try:
            escaped = text.removeprefix(_BYTES_NAME).encode("ascii").decode("unicode_escape")
            return escaped.encode("latin1"), None
        except UnicodeError:
            return text.encode(), None
    return text.encode(), None


def _read_bytes(value: JsonValue) -> bytes:
    try:
        return bytes(read_ids(value, "bytes"))
    except ValueError:
        raise wrong_shape("bytes") from None


def _iter_older_steps(logprobs: JsonObject) -> Iterator[ReportedStep]:
    """Yield the steps of the older interface: lists of texts, of numbers and of mappings."""
    tokens = read_list(logprobs.get("tokens"), "tokens")
    values = read_list(logprobs.get("token_logprobs"), "token_logprobs")
    tops = read_list(logprobs.get("top_logprobs"), "top_logprobs")
    if len(values) != len(tokens) or len(tops) not in (0, len(tokens)):
        raise TraceError(
            "The answer lists {n} tokens and another number of log-probabilities.", n=len(tokens)
        )
    for token, value, top in zip_longest(tokens, values, tops):
        raw, token_id = _read_name(read_text(token, "tokens"))
        listed = read_object(top, "top_logprobs").items()
        yield ReportedStep(
            ReportedToken(
                None if value is None else read_logprob(value, "token_logprobs"), raw, token_id
            ),
            tuple(
                ReportedToken(read_logprob(other, "top_logprobs"), *_read_name(name))
                for name, other in listed
            ),
        )
