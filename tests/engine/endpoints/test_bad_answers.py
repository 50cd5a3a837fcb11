"""Answers that cannot be read get one sentence each, before they cost anything."""

from __future__ import annotations

import gzip
import json

import pytest

from engine.endpoints import import_answer
from engine.endpoints.events import MAX_BYTES
from engine.errors import EngineError
from tests.helpers.endpoint_answers import read

STREAM = read("llamacpp/native_stream.sse").decode()
CHAT = read("llamacpp/chat_stream.sse").decode()


def events_of(stream):
    return [event for event in stream.split("\n\n") if event.strip()]


def joined(events):
    return ("\n\n".join(events) + "\n\n").encode()


def changed(name, change):
    answer = json.loads(read(name))
    change(answer["choices"][0]["logprobs"]["content"])
    return json.dumps(answer).encode()


def swapped(stream, one, other):
    events = events_of(stream)
    events[one], events[other] = events[other], events[one]
    return joined(events)


BAD = {
    "empty": (b"  ", "is empty"),
    "not UTF-8": (b'{"choices": "\xff"}', "not UTF-8"),
    "truncated JSON": (read("vllm/chat_top5.json")[:-40], "not valid JSON"),
    "truncated stream": (STREAM[: len(STREAM) // 3].encode(), "cut off in its last event"),
    "broken event": (STREAM.replace('{"index":0,', '{"index":', 1).encode(), "Event 1 of the"),
    "another shape": (b'{"answer": 42}', "no completion of"),
    "a list of numbers": (b"[1, 2]", "no JSON object"),
    "no log-probabilities": (
        b'{"choices": [{"message": {"content": "Hi"}}]}',
        "no log-probabilities",
    ),
    "an error in a stream": (b'data: {"error": "overloaded"}\n\n', "error: overloaded"),
    "repeated events": (joined([*events_of(STREAM)[:2], *events_of(STREAM)[1:]]), "repeated"),
    "events out of order": (swapped(STREAM, 0, 2), "out of order"),
    "repeated events of a chat": (joined([*events_of(CHAT)[:3], *events_of(CHAT)[2:]]), "repeated"),
    "the end before a token": (swapped(CHAT, -4, -3), "out of order"),
    "two streams": (joined(events_of(CHAT) * 2), "more than one answer"),
    "two answers": (
        joined([*events_of(CHAT)[:2], *events_of(read("vllm/chat_stream.sse").decode())[1:]]),
        "different ids",
    ),
    "NaN": (read("llamacpp/cmpl_5.json").replace(b"-5.379313945770264", b"NaN"), "NaN"),
    "a log-probability above 0": (
        changed("llamacpp/cmpl_5.json", lambda c: c[0].update(logprob=0.5)),
        "above 0",
    ),
    "sums above 1": (
        changed(
            "llamacpp/cmpl_5.json", lambda c: [t.update(logprob=-0.1) for t in c[1]["top_logprobs"]]
        ),
        "sum to",
    ),
    "a candidate twice": (
        changed("llamacpp/cmpl_5.json", lambda c: c[0]["top_logprobs"][2].update(id=260)),
        "same candidate twice",
    ),
    "texts for numbers": (
        changed("llamacpp/cmpl_5.json", lambda c: c[0].update(logprob="x")),
        "field logprob",
    ),
    "bytes that are none": (
        changed("llamacpp/cmpl_5.json", lambda c: c[0].update(bytes=[300])),
        "field bytes",
    ),
    "deep": (b'{"choices":' + b"[" * 100_000, "nests deeper"),
    "many values": (b'{"choices": [' + b"[]," * 300_000 + b"[]]}", "objects and lists"),
    "too large": (gzip.compress(b'{"a": "' + b"x" * MAX_BYTES + b'"}'), "larger than"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_gets_one_sentence(name):
    data, said = BAD[name]
    with pytest.raises(EngineError) as refused:
        import_answer(data)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_answer_that_was_stopped_keeps_what_it_has():
    trace = import_answer(joined(events_of(CHAT)[:4]))
    assert trace.outputs[0].finish_reason == "cancelled"
    assert trace.outputs[0].text == "The sky is"
    assert "The answer stops before its end." in trace.notes


def test_a_request_gives_the_prompt_and_no_secret():
    request = {
        "headers": {"Authorization": "Bearer secret"},
        "body": {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "content": "Why?"},
            ],
            "temperature": 0.7,
            "user": "secret",
            "api_key": "secret",
        },
    }
    trace = import_answer(CHAT.encode(), json.dumps(request).encode())
    assert [m["role"] for m in trace.messages] == ["system", "user"]
    assert trace.messages[0]["content"] == "Be brief."
    assert trace.config == {"temperature": 0.7}
    assert trace.served.choice == "sampling"
    assert "secret" not in repr(trace)
