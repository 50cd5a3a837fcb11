"""Beam searches and watermarks with a model on a server that lists its whole vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import engine
from engine.analysis.watermark_detection import detect_trace
from engine.errors import EngineError
from engine.export.files import export_files
from engine.live import check_values
from engine.models.loading import load
from engine.run.decoding import decode_to_trace, trace_of
from engine.serving import decode
from engine.trace import json_io
from engine.trace.details import BeamDetail
from engine.trace.events import Failed, StepRecorded
from engine.trace.records import Trace
from tests.helpers.llama_server import Llama, llama_of
from tests.helpers.model_server import FakeServer

PROMPT = "Once upon a time"
WHOLE = 10_000


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with llama_of(load("storyteller"), most=WHOLE).serve() as found:
        yield found


def request(
    server: FakeServer, strategy: str, params: Mapping[str, Any], **fields: Any
) -> engine.DecodeRequest:
    given = {"prompt": PROMPT} | fields
    if "messages" in fields:
        del given["prompt"]
    return engine.DecodeRequest(
        strategy, f"endpoint:{server.base}#m", params={"max_new_tokens": 6, **params}, **given
    )


def run(server: FakeServer, strategy: str, params: Mapping[str, Any], **fields: Any) -> Trace:
    return trace_of([*decode(request(server, strategy, params, **fields))][-1])


def locally(strategy: str, params: Mapping[str, Any], **fields: Any) -> Trace:
    params = {"max_new_tokens": 6, **params}
    model = load("storyteller")
    return decode_to_trace(engine.DecodeRequest(strategy, model, PROMPT, params=params, **fields))


def refusal(llama: Llama, strategy: str = "beam_search", **params: Any) -> str:
    with llama.serve() as server, pytest.raises(EngineError) as caught:
        run(server, strategy, params)
    return str(caught.value)


# By day one of each kind: beams, drawn beams, both kinds of marks, and texts that the server splits.
@pytest.mark.by_day(
    "beam_search-params1", "beam_sampling-params3", "watermark-params5", "watermark-params7"
)
@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("beam_search", {"num_beams": 3, "num_return_sequences": 2, "repetition_penalty": 1.3}),
        ("beam_search", {"num_beams": 3, "force_words_ids": [" dragon"]}),
        ("beam_search", {"num_beams": 2, "stop_strings": ["there was"]}),
        ("beam_sampling", {"num_beams": 3, "temperature": 1.4, "top_k": 0}),
        ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 2}),
        ("watermark", {"do_sample": False, "bad_words_ids": [" a"]}),
        ("watermark", {"top_k": 0, "top_p": 0.9, "num_return_sequences": 2}),
        ("watermark", {"scheme": "synthid", "ngram_len": 3}),
    ],
)
def test_tokens_and_decisions_are_those_of_the_model_here(
    server: FakeServer, strategy: str, params: dict[str, Any]
) -> None:
    there, here = run(server, strategy, params, seed=5), locally(strategy, params, seed=5)
    assert [o.token_ids for o in there.outputs] == [o.token_ids for o in here.outputs]
    assert [o.text for o in there.outputs] == [o.text for o in here.outputs]
    assert [o.finish_reason for o in there.outputs] == [o.finish_reason for o in here.outputs]
    for one, other in zip(there.steps, here.steps, strict=True):
        assert [c.token_id for c in one.candidates[:5]] == [
            c.token_id for c in other.candidates[:5]
        ]
        assert one.candidates[0].raw_logprob == pytest.approx(
            other.candidates[0].raw_logprob, abs=1e-4
        )
        assert one.entropy == pytest.approx(other.entropy, abs=1e-3)
        if isinstance(one.detail, BeamDetail):
            assert isinstance(other.detail, BeamDetail)
            fates = [
                [(n.token_id, n.fate) for n in detail.pool] for detail in (one.detail, other.detail)
            ]
            assert fates[0] == fates[1]


def test_the_record_says_where_the_model_is_and_what_it_costs(server: FakeServer) -> None:
    trace = run(server, "beam_search", {"num_beams": 2})
    host = server.base.removeprefix("http://").removesuffix("/v1")
    assert trace.served is None
    assert (trace.model.id, trace.model.host, trace.model.vocab_size) == ("m", host, 4096)
    assert trace.is_on_server
    assert f"Every step asks {host} for the probabilities of all 4096 tokens" in trace.notes[-1]
    assert not any("reads the whole text again" in note for note in trace.notes)
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_what_needs_the_model_here_says_where_it_is(server: FakeServer) -> None:
    trace = run(server, "beam_search", {"num_beams": 2, "max_new_tokens": 2})
    with pytest.raises(EngineError, match="is on the server 127"):
        export_files(trace)


def test_a_watermark_is_found_again(server: FakeServer) -> None:
    trace = run(server, "watermark", {"bias": 12.0, "max_new_tokens": 24, "top_k": 0}, seed=2)
    found = detect_trace(trace)
    assert found.verdict.prediction
    assert not detect_trace(trace, {"hashing_key": 99}).verdict.prediction


def test_a_conversation_is_put_into_the_template_by_the_server(server: FakeServer) -> None:
    messages = [{"role": "user", "content": "Once upon a time<|endoftext|>"}]
    trace = run(server, "beam_search", {"num_beams": 2}, messages=messages)
    assert trace.messages == tuple(messages)
    assert "".join(trace.pieces[i] for i in trace.prompt_ids) == messages[0]["content"]
    assert trace.prompt_ids[-1] == 0


def test_one_pass_asks_once_for_equal_beams(server: FakeServer) -> None:
    with llama_of(load("storyteller"), most=WHOLE).serve() as own:
        asked = own.answers["/completion"]
        bodies: list[Any] = []

        def count(given: Any) -> Any:
            bodies.append(tuple(given.body["prompt"]))
            return asked(given)

        own.answers["/completion"] = count
        run(own, "beam_search", {"num_beams": 3, "max_new_tokens": 3})
    # Two to probe, one for the vocabulary, one for the prompt, and one for each beam after it.
    assert len(bodies) == 4 + 2 * 3


@pytest.mark.parametrize("lists", [10, 4095])
def test_a_server_that_lists_fewer_is_refused(lists: int) -> None:
    said = refusal(llama_of(load("storyteller"), most=lists))
    assert "needs the probability of every token" in said
    assert f"lists {lists} of them" in said


def test_probabilities_after_a_servers_filters_are_refused() -> None:
    def sharpen(answer: dict[str, Any]) -> dict[str, Any]:
        calls.append(answer)
        for step in answer["completion_probabilities"] if len(calls) == 2 else ():
            for token in step["top_logprobs"]:
                token["logprob"] *= 2
        return answer

    calls: list[Any] = []
    assert "does not report the model's own probabilities" in refusal(Llama(change=sharpen))


@pytest.mark.parametrize(
    ("strategy", "params", "says"),
    [
        ("watermark", {"guidance_scale": 1.5}, "needs the model on this machine"),
        ("watermark", {"structured_outputs": {"regex": "a+"}}, "needs the model on this machine"),
        ("watermark", {"repetition_penalty": 1.2}, "it reads logits"),
        ("beam_search", {"num_beams": 0}, "a whole number from"),
        ("beam_search", {"sampler": "own"}, "sampler"),
    ],
)
def test_settings_that_need_more_are_refused_before_the_server_is_asked(
    strategy: str, params: dict[str, Any], says: str
) -> None:
    llama = Llama()
    assert says in refusal(llama, strategy, **params)
    assert not llama.completions


def test_a_column_knows_how_many_texts_it_gets(server: FakeServer) -> None:
    params = {"num_beams": 3, "num_return_sequences": 3}
    assert check_values(request(server, "beam_search", params)) == 3


def test_a_list_that_becomes_shorter_ends_the_run_with_a_sentence_and_its_steps() -> None:
    def shorten(answer: dict[str, Any]) -> dict[str, Any]:
        calls.append(answer)
        if len(calls) > 6:
            del answer["completion_probabilities"][0]["top_logprobs"][30:]
        return answer

    calls: list[Any] = []
    with Llama(change=shorten).serve() as server:
        *_, last = decode(request(server, "beam_search", {"num_beams": 2}))
    assert isinstance(last, Failed)
    assert "asked for 40 candidates and listed 30" in str(last.error)
    assert last.trace is not None
    assert last.trace.steps


def test_a_stop_keeps_what_came(server: FakeServer) -> None:
    event = None
    running = decode(request(server, "beam_search", {"num_beams": 2, "max_new_tokens": 60}))
    for event in running:
        if isinstance(event, StepRecorded) and event.step.index == 1:
            running.cancel()
    trace = trace_of(event)
    assert 2 <= len(trace.steps) < 60
    assert trace.outputs[0].finish_reason == "cancelled"
