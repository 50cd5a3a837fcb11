"""Answers of OpenAI, Ollama and TGI, written from their documentation, and marked as not measured."""

from __future__ import annotations

import json
import math

import pytest

from engine.endpoints import import_answer


def entry(text, logprob, *top, **more):
    listed = [{"token": t, "bytes": [*t.encode()], "logprob": v} for t, v in top]
    own = {"token": text, "bytes": [*text.encode()], "logprob": logprob}
    return {**own, "top_logprobs": listed, **more}


TOKENS = [
    entry("Hi", -0.1, ("Hi", -0.1), ("Hello", -2.5)),
    entry("!", -1.2, (".", -0.9), ("!", -1.2)),
]
OPENAI_CHAT = {
    "id": "chatcmpl-1",
    "system_fingerprint": "fp_44709d6fcb",
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi!"},
            "logprobs": {"content": TOKENS, "refusal": None},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2},
}
OPENAI_COMPLETION = {
    "system_fingerprint": "fp_1",
    "model": "davinci-002",
    "choices": [
        {
            "index": 0,
            "text": "é!",
            "logprobs": {
                "tokens": ["bytes:\\xc3", "bytes:\\xa9", "!"],
                "token_logprobs": [-0.2, -0.01, -9999.0],
                "top_logprobs": [{"bytes:\\xc3": -0.2}, {"bytes:\\xa9": -0.01}, {".": -0.3}],
                "text_offset": [0, 0, 1],
            },
            "finish_reason": "length",
        }
    ],
}
OLLAMA = [
    {"model": "gemma3", "response": "Hi", "done": False, "logprobs": TOKENS[:1]},
    {"model": "gemma3", "response": "!", "done": False, "logprobs": TOKENS[1:]},
    {
        "model": "gemma3",
        "response": "",
        "done": True,
        "done_reason": "stop",
        "eval_count": 2,
        "prompt_eval_duration": 100_000_000,
        "eval_duration": 400_000_000,
    },
]
TGI_TOKENS = [
    {"id": 5, "text": "Hi", "logprob": -0.1, "special": False},
    {"id": 7, "text": "!", "logprob": -1.2, "special": False},
]
TGI_TOPS = [
    [{"id": 5, "text": "Hi", "logprob": -0.1, "special": False}],
    [{"id": 9, "text": ".", "logprob": -0.9, "special": False}],
]
TGI = {
    "generated_text": "Hi!",
    "details": {
        "finish_reason": "length",
        "generated_tokens": 2,
        "seed": 42,
        "prefill": [{"id": 1, "text": "Say", "logprob": None}],
        "tokens": TGI_TOKENS,
        "top_tokens": TGI_TOPS,
    },
}
TGI_STREAM = [
    {"index": i + 1, "token": token, "top_tokens": top, "generated_text": None, "details": None}
    for i, (token, top) in enumerate(zip(TGI_TOKENS, TGI_TOPS, strict=True))
]
TGI_STREAM[1] |= {
    "generated_text": "Hi!",
    "details": {"finish_reason": "length", "generated_tokens": 2, "seed": 42},
}


def sse(events):
    return "".join(f"data:{json.dumps(event)}\n\n" for event in events).encode()


ANSWERS = {
    "openai": json.dumps(OPENAI_CHAT).encode(),
    "ollama": "\n".join(map(json.dumps, OLLAMA)).encode(),
    "tgi": json.dumps([TGI]).encode(),
    "tgi stream": sse(TGI_STREAM),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_documented_format_is_read_and_marked_as_not_measured(name):
    trace = import_answer(ANSWERS[name])
    assert trace.served.server == name.split()[0]
    assert not trace.served.measured
    assert any("no answer of" in note for note in trace.notes)
    assert trace.outputs[0].text == "Hi!"
    assert [trace.pieces[step.emit[0]] for step in trace.steps] == ["Hi", "!"]
    assert {step.detail.distribution for step in trace.steps} == {"unknown"}
    assert "perplexity" not in trace.metrics
    second = trace.steps[1]
    assert [c.raw_logprob for c in second.candidates] == [-0.9, -1.2]
    unseen = 1 - math.exp(-0.9) - math.exp(-1.2)
    assert second.detail.unseen_low == pytest.approx(unseen, abs=2e-6)


def test_parts_of_characters_and_impossible_tokens_of_the_older_interface():
    trace = import_answer(json.dumps(OPENAI_COMPLETION).encode())
    assert [trace.pieces[step.emit[0]] for step in trace.steps] == ["<0xC3>", "<0xA9>", "!"]
    assert trace.outputs[0].text == "é!"
    assert trace.steps[2].candidates[-1].raw_logprob == -math.inf


def test_ids_seed_and_times_are_kept_where_a_server_has_them():
    tgi = import_answer(ANSWERS["tgi"])
    assert [step.emit for step in tgi.steps] == [(5,), (7,)]
    assert (tgi.seed, tgi.prompt_ids, tgi.pieces[1]) == (42, (1,), "Say")
    ollama = import_answer(ANSWERS["ollama"])
    assert ollama.timing.total_s == pytest.approx(0.5)
    assert ollama.metrics["tokens_per_s"] == pytest.approx(4)


def test_a_request_and_its_answer_may_be_one_object():
    whole = {"request": {"inputs": "Say", "parameters": {"temperature": 0.5}}, "response": TGI}
    trace = import_answer(json.dumps(whole).encode())
    assert trace.prompt == "Say"
    assert trace.served.choice == "sampling"
