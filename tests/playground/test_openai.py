"""Programs that speak OpenAI's API: its own client reads the texts and numbers of the engine's runs."""

from __future__ import annotations

import math
import re
from http.client import HTTPConnection

import pytest

from engine import DecodeRequest
from engine.errors import ParameterError
from engine.messages import to_json
from engine.models.loading import load
from engine.run.decoding import decode_to_trace
from engine.run.scheduler import RUN_QUEUE
from playground.server.openai_request import parse_request
from playground.server.openai_response import TokenLogprobs, format_logprobs
from tests.helpers.client import Client
from tests.helpers.gates import gate
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.queue import wait_for_all_runs
from tests.helpers.sentences import clean
from tests.helpers.served import SERVED_HERE
from tests.helpers.server import ROOT

openai = pytest.importorskip("openai", reason="requirements-dev.txt lists the client")
pytestmark = SERVED_HERE
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def client(here):
    with openai.OpenAI(
        base_url=f"{here}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def drawn():
    """Return the engine's own run of what the tests ask for."""
    params = {"max_new_tokens": 10, "temperature": 0.9, "top_k": 40, "num_return_sequences": 2}
    return decode_to_trace(DecodeRequest("sampling", "storyteller", PROMPT, params=params, seed=5))


@pytest.fixture(scope="module")
def asked():
    return {
        "model": "storyteller",
        "prompt": PROMPT,
        "max_tokens": 10,
        "temperature": 0.9,
        "n": 2,
        "seed": 5,
        "extra_body": {"top_k": 40},
    }


def recorded(trace, sequence):
    """Return [(piece, logprob)] of an output and the most probable tokens of each step."""
    chosen, best = [], []
    for step in trace.steps_of(sequence):
        own = {c.token_id: c.raw_logprob for c in step.candidates}
        chosen.append((trace.pieces[step.emit[0]], own[step.emit[0]]))
        top = sorted(own.items(), key=lambda one: -one[1])[:20]
        best.append({trace.pieces[i]: value for i, value in top})
    return chosen, best


def test_texts_and_log_probabilities_are_those_of_the_trace(client, asked, drawn):
    answer = client.completions.create(**asked, logprobs=20)
    assert [choice.text for choice in answer.choices] == [o.text for o in drawn.outputs]
    assert [choice.finish_reason for choice in answer.choices] == ["length", "length"]
    for sequence, choice in enumerate(answer.choices):
        chosen, best = recorded(drawn, sequence)
        said = choice.logprobs
        assert list(zip(said.tokens, said.token_logprobs, strict=True)) == chosen
        assert said.top_logprobs == best
        assert {len(top) for top in said.top_logprobs} == {20}
        assert all(
            choice.text[start:].startswith(token)
            for start, token in zip(said.text_offset, said.tokens, strict=True)
        )
    assert answer.usage.prompt_tokens == len(drawn.prompt_ids)
    assert answer.usage.completion_tokens == 20


def test_a_response_format_is_a_grammar(client):
    schema = {"type": "object", "properties": {"n": {"enum": [3, 7]}}, "required": ["n"]}
    schema["additionalProperties"] = False
    wanted = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}
    answer = client.completions.create(
        model="storyteller", prompt=PROMPT, max_tokens=20, extra_body={"response_format": wanted}
    )
    assert answer.choices[0].text in ('{"n":3}', '{"n":7}')
    assert answer.choices[0].finish_reason == "stop"


def test_a_stream_adds_up_to_the_same(client, asked, drawn):
    texts, tokens, ends, usage = ["", ""], [[], []], {}, None
    for chunk in client.completions.create(
        **asked, logprobs=1, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            said = choice.logprobs
            tokens[choice.index] += zip(said.tokens, said.token_logprobs, strict=True)
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert texts == [output.text for output in drawn.outputs]
    assert tokens == [recorded(drawn, 0)[0], recorded(drawn, 1)[0]]
    assert ends == {0: "length", 1: "length"}
    assert usage.completion_tokens == 20


@pytest.mark.parametrize("stream", [False, True])
def test_a_strategy_is_chosen_by_the_models_name_and_each_prompt_is_a_run(client, stream):
    prompts = [PROMPT, "The dog"]
    params = {"max_new_tokens": 6, "num_beams": 3, "num_return_sequences": 2}
    runs = [
        decode_to_trace(DecodeRequest("beam_search", "storyteller", one, params=params))
        for one in prompts
    ]
    answer = client.completions.create(
        model="storyteller:beam_search",
        prompt=prompts,
        max_tokens=6,
        n=2,
        stream=stream,
        extra_body={"num_beams": 3},
    )
    texts = [""] * 4
    for chunk in answer if stream else [answer]:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [output.text for run in runs for output in run.outputs]


def test_temperature_0_is_greedy_search_and_stop_strings_end_the_text_before_them(client):
    params = {"max_new_tokens": 12}
    whole = decode_to_trace(DecodeRequest("greedy", "storyteller", PROMPT, params=params))
    text = whole.outputs[0].text
    word = text.split()[-2]
    given = {"model": "storyteller", "max_tokens": 12, "temperature": 0}
    ids = list(whole.prompt_ids)
    plain = client.completions.create(**given, prompt=ids)
    assert plain.choices[0].text == text
    stopped = client.completions.create(**given, prompt=PROMPT, stop=[word])
    assert stopped.choices[0].text == text[: text.index(word)]
    assert stopped.choices[0].finish_reason == "stop"
    parts = client.completions.create(**given, prompt=PROMPT, stop=[word], stream=True)
    assert "".join(part.choices[0].text for part in parts) == text[: text.index(word)]
    first = whole.steps[0].emit[0]
    other = client.completions.create(**given, prompt=PROMPT, logit_bias={str(first): -100})
    assert not other.choices[0].text.startswith(whole.pieces[first])


def test_models_are_listed_with_their_strategies(client):
    names = [model.id for model in client.models.list()]
    assert {"storyteller", "storyteller:dola", "storyfixer:beam_search"} <= set(names)
    assert "storyfixer:dola" not in names, "it needs a decoder-only model"
    assert client.models.retrieve("storyteller:dola").id == "storyteller:dola"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


REFUSED = {
    "unknown model": ({"model": "zzz"}, openai.NotFoundError, "model", "catalogue"),
    "no model": ({"model": None}, openai.NotFoundError, "model", "/v1/models"),
    "no prompt": ({"prompt": None}, openai.BadRequestError, "prompt", "exactly one"),
    "no prompts": ({"prompt": []}, openai.BadRequestError, "prompt", "1 to 20"),
    "too long": ({"max_tokens": 10**6}, openai.BadRequestError, "max_new_tokens", "512"),
    "streamed": ({"max_tokens": 0, "stream": True}, openai.BadRequestError, "max_new_tokens", "1"),
    "too many": ({"logprobs": 21}, openai.BadRequestError, "logprobs", "20"),
    "drafted": (
        {"model": "storyteller:speculative", "logprobs": 1},
        openai.BadRequestError,
        "logprobs",
        "one at a time",
    ),
    "unsupported": ({"presence_penalty": 1}, openai.BadRequestError, "presence_penalty", "support"),
    "unknown": ({"tok_k": 3}, openai.BadRequestError, "tok_k", "did you mean top_k"),
    "format": (
        {"response_format": {"type": "xml"}},
        openai.BadRequestError,
        "response_format",
        "json_schema",
    ),
    "bias": ({"logit_bias": {"a": 1}}, openai.BadRequestError, "logit_bias", "token ids"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_error_is_one_sentence_and_names_the_field(client, case):
    changes, kind, field, words = REFUSED[case]
    body = {"model": "storyteller", "prompt": PROMPT, "max_tokens": 3, **changes}
    stream = body.pop("stream", False)
    with pytest.raises(kind) as raised:
        client.completions.create(
            model="", prompt="", extra_body=body, **({"stream": True} if stream else {})
        )
    assert raised.value.body["param"] == field
    assert words in clean(raised.value.body["message"])


def test_what_is_refused_before_it_is_read_has_the_same_form(client, here):
    with pytest.raises(openai.APIStatusError) as raised:
        client.completions.create(model="storyteller", prompt="a" * 1_000_001)
    assert raised.value.status_code == 413
    assert raised.value.body["message"] == "The request is too large."
    http = Client(here)
    deep = http.post("/v1/completions", content="[" * 200 + "]" * 200)
    assert deep.json()["error"]["type"] == "invalid_request_error"
    assert http.post("/v1/completions", content="{").status_code == 400
    headers = {"origin": "http://evil.example"}
    assert http.post("/v1/completions", json={}, headers=headers).status_code == 403
    http.http.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_closed_connection_frees_the_model(here, stream):
    body = {"model": "storyteller", "prompt": PROMPT, "max_tokens": 200, "stream": stream}
    program = HTTPConnection(here.removeprefix("http://"), timeout=PATIENCE_S)
    with gate(load("storyteller").model, free=1) as held:
        program.request("POST", "/v1/completions", to_json(body))
        held.wait()
        (place,) = RUN_QUEUE._tickets
        program.close()
        comes_true(place.cancelled.is_set)
        held.open()
        wait_for_all_runs()
        assert held.passes == 2


def test_the_example_of_the_documents_runs(here, capsys):
    text = (ROOT / "docs" / "usage.md").read_text()
    [block] = re.findall(r"^```python\n(from openai .*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(block.replace("http://127.0.0.1:7860", here), {})
    params = {"num_beams": 4, "max_new_tokens": 20}
    run = decode_to_trace(DecodeRequest("beam_search", "storyteller", PROMPT, params=params))
    assert capsys.readouterr().out == run.outputs[0].text + "\n"


@pytest.mark.real
def test_a_conversation_is_the_engines(client):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Say hi."}]
    run = decode_to_trace(
        DecodeRequest("greedy", "smollm2", messages=messages, params={"max_new_tokens": 8})
    )
    parts = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
    answer = client.chat.completions.create(
        model="smollm2", messages=parts, temperature=0, max_tokens=8, logprobs=True, top_logprobs=3
    )
    [choice] = answer.choices
    assert choice.message.content == run.outputs[0].text
    chosen, best = recorded(run, 0)
    said = choice.logprobs.content
    words = [token for token in chosen if token[0] in choice.message.content]
    assert [(token.token, token.logprob) for token in said] == words
    assert bytes(b for token in said for b in token.bytes).decode() == choice.message.content
    assert [{t.token for t in token.top_logprobs} for token in said] == [
        {*list(top)[:3]} for top in best[: len(said)]
    ]
    parts = client.chat.completions.create(
        model="smollm2", messages=messages, temperature=0, max_tokens=8, stream=True
    )
    deltas = [part.choices[0].delta for part in parts]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content for delta in deltas) == choice.message.content


def test_a_picture_and_a_sound_come_with_a_message():
    parts = [
        {"type": "text", "text": "Say it."},
        {"type": "image_url", "image_url": {"url": "example:scene-1"}},
        {"type": "input_audio", "input_audio": {"data": "example:story-1", "format": "wav"}},
    ]
    body = {"model": "captioner:beam_search", "messages": [{"role": "user", "content": parts}]}
    [run] = parse_request(body, is_chat=True).runs
    assert (run.strategy, run.model) == ("beam_search", "captioner")
    assert (run.image, run.audio) == ("example:scene-1", "example:story-1")
    assert run.messages == [{"role": "user", "content": "Say it."}]
    with pytest.raises(ParameterError, match="one image_url"):
        parse_request(
            {**body, "messages": [{"role": "user", "content": [*parts, parts[1]]}]}, is_chat=True
        )


def test_a_probability_of_0_is_written_as_openai_does():
    token = TokenLogprobs(0, -math.inf, ((1, -math.inf),))
    pieces = {0: "a", 1: "<0xE2><0x80>"}
    told = format_logprobs([token], pieces, is_chat=True)
    to_json(told)
    [said] = told["content"]
    assert said["logprob"] == -9999.0
    assert said["top_logprobs"] == [
        {"token": "<0xE2><0x80>", "logprob": -9999.0, "bytes": [0xE2, 0x80]}
    ]
