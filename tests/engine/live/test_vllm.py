"""Runs on a server with vLLM's interface: candidates by their ids, and the texts of ids from the server."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import engine
from engine.analysis.many_draws import draw_many
from engine.endpoints import token_texts
from engine.errors import EngineError
from engine.live.resume import branch_ids
from engine.models.loading import load
from engine.models.text import tokenize_text
from engine.run.decoding import decode_to_trace, trace_of
from engine.serving import decode
from engine.trace.events import Finished, StepRecorded
from engine.trace.records import Trace
from engine.trace.served import ServedDetail
from tests.helpers.endpoint_answers import read, read_request_of
from tests.helpers.llama_server import WORDS
from tests.helpers.model_server import Asked, FakeServer, Reply
from tests.helpers.vllm_server import Vllm, vllm_of

OWN = {"sampler": "own", "temperature": 1.0, "top_k": 0}
LLAMA = "🦙".encode()
START, END = 7, 8
PARTS = {START: LLAMA[:2], END: LLAMA[2:]}


def request(server: FakeServer, strategy: str = "greedy", **fields: Any) -> engine.DecodeRequest:
    given = {"prompt": "one two three", **fields}
    given["params"] = {"max_new_tokens": 6, **given.get("params", {})}
    if "input_ids" in given:
        del given["prompt"]
    return engine.DecodeRequest(strategy, f"endpoint:{server.base}#m", **given)


def run(server: FakeServer, strategy: str = "greedy", **fields: Any) -> Trace:
    return trace_of([*decode(request(server, strategy, **fields))][-1])


def certain(tokens: Sequence[int], size: int = len(WORDS)) -> Any:
    """Return distributions that write these tokens after a prompt of three, one after the other."""

    def logprobs(ids: Sequence[int]) -> list[float]:
        found = [-30.0] * size
        found[tokens[(len(ids) - 3) % len(tokens)]] = -1e-9
        return found

    return logprobs


def hide_size(server: FakeServer) -> None:
    """Let the server refuse ids as versions did that do not name the vocabulary's size."""
    complete = server.answers["/v1/completions"]
    refused = Reply({"error": {"message": "allowed_token_ids is not None and empty!"}}, 400)

    def answer(asked: Asked) -> Reply:
        return refused if asked.body.get("allowed_token_ids") == [] else complete(asked)

    server.answers["/v1/completions"] = answer


def asked_ids(server: FakeServer) -> list[int]:
    """Return the ids whose texts the server was asked for."""
    bodies = (asked.body for asked in server.asked if asked.path == "/detokenize")
    return [i for body in bodies for i in body["tokens"] if i < len(WORDS)]


def shape(value: Any) -> Any:
    """Return the names and types of a JSON value; ids and texts as names of tokens are no part of it."""
    if isinstance(value, dict):
        tokens = {float} == {*map(type, value.values())}
        return {"token": "float"} if tokens else {n: shape(v) for n, v in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_the_server_of_the_tests_answers_as_the_recorded_one() -> None:
    recorded = {n: json.loads(read(f"vllm/{n}.json")) for n in ("cmpl_ids", "chat_top100")}
    asked = json.loads(read_request_of("vllm/cmpl_ids.json") or b"")
    vllm, body = Vllm(), {**asked["body"], "prompt": [5, 6, 7, 8]}
    answer = vllm.complete(Asked(asked["path"], {}, body)).body
    assert shape(answer) == shape(recorded["cmpl_ids"])
    refused = vllm.complete(Asked(asked["path"], {}, {**body, "logprobs": 100}))
    assert (refused.status, shape(refused.body)) == (400, shape(recorded["chat_top100"]))
    tokens = vllm.tokenize(Asked("/tokenize", {}, {"prompt": "one two"})).body
    assert tokens.keys() == json.loads(read("vllm/tokenize.json")).keys()


@pytest.mark.parametrize("seed", [1, 2])
def test_our_own_draw_is_that_of_a_local_run_on_the_same_distributions(seed: int) -> None:
    loaded = load("storyteller")
    params = {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "max_new_tokens": 8}
    local = decode_to_trace(
        engine.DecodeRequest("sampling", loaded, "Once upon a time", params=params, seed=seed)
    )
    own = {**params, "sampler": "own"}
    with vllm_of(loaded).serve() as server:
        trace = run(server, "sampling", prompt="Once upon a time", params=own, seed=seed)
    assert trace.prompt_ids == local.prompt_ids
    assert trace.outputs[0].token_ids == local.outputs[0].token_ids
    assert trace.outputs[0].text == local.outputs[0].text
    assert trace.served is not None
    assert (trace.served.server, trace.served.choice) == ("vllm", "own")
    ids = {*trace.prompt_ids, *trace.outputs[0].token_ids}
    assert {i: trace.pieces[i] for i in ids} == {i: loaded.pieces[i] for i in ids}
    for step in trace.steps:
        assert isinstance(step.detail, ServedDetail)
        assert step.detail.draw_error == 0


@pytest.mark.parametrize("params", [{}, OWN], ids=["server", "own"])
def test_a_character_of_several_tokens_is_written_as_one(params: dict[str, Any]) -> None:
    vllm = Vllm(certain([5, START, END, 9]), parts=PARTS)
    strategy = "sampling" if params else "greedy"
    with vllm.serve() as server:
        trace = run(server, strategy, params={**params, "max_new_tokens": 4})
    assert trace.outputs[0].token_ids == (5, START, END, 9)
    assert trace.outputs[0].text == f"{WORDS[5]}🦙{WORDS[9]}"
    assert {i: trace.pieces[i] for i in (5, START, END)} == {
        5: WORDS[5],
        START: f"\ufffd{START}",
        END: f"\ufffd{END}",
    }


def test_a_character_that_is_not_complete_is_no_other_one() -> None:
    with Vllm(certain([5, START]), parts=PARTS).serve() as server:
        trace = run(server, "sampling", params={**OWN, "max_new_tokens": 4})
    assert trace.outputs[0].text == f"{WORDS[5]}\ufffd{WORDS[5]}\ufffd"


@pytest.mark.parametrize(("stop", "kept"), [(f"{WORDS[9]}", 4), ("🦙", 3)])
def test_a_stop_string_ends_our_own_run(stop: str, kept: int) -> None:
    with Vllm(certain([5, START, END, 9]), parts=PARTS).serve() as server:
        trace = run(server, "sampling", params={**OWN, "stop_strings": [stop]})
    assert trace.outputs[0].finish_reason == "stop"
    assert trace.outputs[0].token_ids == (5, START, END, 9)[:kept]
    assert trace.outputs[0].text.endswith(stop)


def test_the_token_that_ends_a_text_is_found_by_asking() -> None:
    def often_ends(ids: Sequence[int]) -> list[float]:
        # Words are more probable, so that the server itself never chooses the end.
        found = [-30.0] * len(words)
        found[0], found[5], found[9] = math.log(0.3), math.log(0.36), math.log(0.34)
        return found

    words = ["</s>", *WORDS[1:]]
    vllm = Vllm(often_ends, words)
    with vllm.serve() as server:
        traces = [run(server, "sampling", params=OWN, seed=seed) for seed in range(3)]
        given = run(server, "sampling", params={**OWN, "eos_token_id": [9]}, seed=0)
    assert {trace.outputs[0].finish_reason for trace in traces} >= {"eos"}
    for trace in traces:
        output = trace.outputs[0]
        assert (0 in output.token_ids) == (output.finish_reason == "eos")
        assert 0 not in output.token_ids[:-1]
        assert "</s>" not in output.text
    checks = [b["allowed_token_ids"] for b in vllm.completions if b.get("allowed_token_ids")]
    assert checks == [[0]] * sum(trace.outputs[0].finish_reason == "eos" for trace in traces)
    assert 9 not in given.outputs[0].token_ids[:-1], "the request's own end is used instead"


def test_the_text_of_an_id_is_asked_for_once() -> None:
    with Vllm().serve() as server:
        hide_size(server)
        trace = run(server, "sampling", params={**OWN, "max_new_tokens": 12})
        counts = Counter(asked_ids(server))
    seen = {c.token_id for step in trace.steps for c in step.candidates} | {*trace.prompt_ids}
    assert counts == Counter(seen)


def test_frequent_tokens_are_named_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_texts, "_FREQUENT", 30)
    with Vllm().serve() as server:
        run(server, "sampling", params={**OWN, "max_new_tokens": 12})
        requests = [asked.body for asked in server.asked if asked.path == "/detokenize"]
    # The separator, the frequent ones, and the others as they come up.
    assert [i for i in requests[1]["tokens"] if i < len(WORDS)] == [*range(30)]
    assert len(requests) < 2 + 10


def test_a_branch_continues_with_any_candidate() -> None:
    with Vllm().serve() as server:
        first = run(server)
        other = first.steps[2].candidates[4].token_id
        ids, parent = branch_ids(first, 2, other)
        branch = run(server, input_ids=ids, parent=parent, params={"max_new_tokens": 3})
    assert ids == (*first.prompt_ids, *first.outputs[0].token_ids[:2], other)
    assert branch.prompt_ids == ids
    assert branch.pieces[other] == WORDS[other]


def test_many_draws_are_single_runs() -> None:
    params = {"max_new_tokens": 3, "temperature": 0.8, "top_k": 6}
    with Vllm().serve() as server:
        batches = list(draw_many(request(server, "sampling", params=params, seed=4), 8))
        for draw in [draw for batch in batches for draw in batch.draws][::3]:
            alone = run(server, "sampling", params={**params, "sampler": "own"}, seed=draw.seed)
            assert draw.token_ids == alone.outputs[0].token_ids
    assert batches[-1].pieces
    assert all(text == WORDS[i] for i, text in batches[-1].pieces.items())


def test_a_stop_ends_a_stream_next_to_which_texts_are_asked_for() -> None:
    with Vllm(slow_after=2).serve() as server:
        hide_size(server)
        running = decode(request(server))
        for event in running:
            if isinstance(event, StepRecorded) and event.step.index == 1:
                running.cancel()
        assert not server.released.is_set()
    assert isinstance(event, Finished)
    assert len(event.trace.steps) == 2


def test_a_strategy_that_needs_all_texts_is_refused() -> None:
    vllm = Vllm(certain([5, START, END]), parts=PARTS, most=len(WORDS))
    with vllm.serve() as server, pytest.raises(EngineError, match="lists 20 of them"):
        run(server, "beam_search")


@pytest.mark.parametrize("prompt", ["", "§a", "§a§a§a"])
def test_a_server_that_gives_no_texts_for_ids_is_not_drawn_from(prompt: str) -> None:
    with Vllm().serve() as server:
        server.answers["/detokenize"] = lambda _: Reply({"prompt": prompt})
        with pytest.raises(EngineError, match=r"candidates without ids\. Use sampler = server"):
            run(server, "sampling", params=OWN)
        # Its own choice has the texts that it reports in place of ids.
        trace = run(server)
    assert trace.outputs[0].text == "".join(WORDS[i] for i in trace.outputs[0].token_ids)


def test_a_text_that_the_server_refuses_is_shown_by_its_id() -> None:
    with Vllm().serve() as server:
        hide_size(server)
        decode_ids = server.answers["/detokenize"]

        def answer(asked: Asked) -> Reply:
            few = len(asked.body["tokens"]) <= 10
            return decode_ids(asked) if few else Reply({"error": {"message": "no"}}, 500)

        server.answers["/detokenize"] = answer
        trace = run(server)
    pieces = [(c.token_id, trace.pieces[c.token_id]) for c in trace.steps[0].candidates]
    unknown = [(i, piece) for i, piece in pieces if piece == f"\ufffd{i}"]
    assert len(unknown) > 10
    assert all(piece == WORDS[i] for i, piece in pieces if (i, piece) not in unknown)
    assert trace.outputs[0].text == "".join(WORDS[i] for i in trace.outputs[0].token_ids)


def test_the_prompt_has_its_own_texts() -> None:
    loaded = load("storyteller")
    start = tokenize_text(loaded.tokenizer, "Once upon a time")["input_ids"]
    with vllm_of(loaded).serve() as server:
        trace = run(server, prompt="Once upon a time", params={"max_new_tokens": 1})
    assert [trace.pieces[i] for i in trace.prompt_ids] == [loaded.pieces[i] for i in start]
