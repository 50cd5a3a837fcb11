"""Runs of models behind an address: the server's own choice, our own draws, and what goes wrong."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.cli.main import main
from engine.errors import EngineError
from engine.live import run as live_run
from engine.live import run_limit
from engine.models.loading import load
from engine.models.text import tokenize_text
from engine.run.decoding import decode_to_trace, trace_of
from engine.serving import decode
from engine.settings import SETTINGS
from engine.trace import json_io
from engine.trace.events import Failed, Finished, Started, StepRecorded, TextDelta
from engine.trace.json_io import trace_from_dict, trace_to_dict
from engine.trace.records import Trace
from engine.trace.served import ServedDetail
from tests.helpers.llama_server import (
    END_ID,
    WORDS,
    Llama,
    distribution_of,
    llama_of,
    some_logprobs,
)
from tests.helpers.model_server import FakeServer, Reply, serve_models

KEY = "sk-very-secret-0123456789"
OWN = {"sampler": "own", "temperature": 1.0, "top_k": 0}


def request(server: FakeServer, strategy: str = "greedy", **fields: Any) -> engine.DecodeRequest:
    given = {"prompt": "one two three", "params": {"max_new_tokens": 6}, **fields}
    given["params"] = {"max_new_tokens": 6, **given["params"]}
    if "input_ids" in given or "messages" in given:
        del given["prompt"]
    return engine.DecodeRequest(strategy, f"endpoint:{server.base}#m", **given)


def run(server: FakeServer, strategy: str = "greedy", **fields: Any) -> Trace:
    return trace_of([*decode(request(server, strategy, **fields))][-1])


def refusal(llama: Llama, strategy: str = "greedy", **fields: Any) -> str:
    with llama.serve() as server, pytest.raises(EngineError) as caught:
        run(server, strategy, **fields)
    return str(caught.value)


def greedy_ids(start: Sequence[int], n: int) -> list[int]:
    ids = list(start)
    for _ in range(n):
        logprobs = some_logprobs(ids)
        ids.append(logprobs.index(max(logprobs)))
    return ids[len(start) :]


def test_greedy_search_of_the_server_is_streamed_into_a_trace() -> None:
    with Llama().serve() as server:
        events = [*decode(request(server))]
        trace = trace_of(events[-1])
    assert isinstance(events[0], Started)
    steps = [e.step for e in events if isinstance(e, StepRecorded)]
    assert steps == list(trace.steps)
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text = text[: event.keep_chars] + event.text
    assert (
        text
        == trace.outputs[0].text
        == "".join(trace.pieces[i] for i in trace.outputs[0].token_ids)
    )
    assert list(trace.outputs[0].token_ids) == greedy_ids(trace.prompt_ids, 6)
    assert trace.served is not None
    assert (trace.served.server, trace.served.choice) == ("llamacpp", "greedy")
    assert trace.served.host == f"127.0.0.1:{server.server_port}"
    assert trace.prompt == "one two three"
    for step in trace.steps:
        assert isinstance(step.detail, ServedDetail)
        assert step.candidates[0].raw_logprob == pytest.approx(
            max(some_logprobs([*trace.prompt_ids, *trace.outputs[0].token_ids[: step.index]]))
        )


def test_every_sampler_value_is_sent() -> None:
    llama = Llama()
    params = {"temperature": 0.7, "top_k": 7, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.2}
    with llama.serve() as server:
        trace = run(server, "sampling", params=params, seed=11)
    sent = llama.completions[-1]
    assert {name: sent[name] for name in ("temperature", "top_k", "top_p", "min_p")} == {
        name: params[name] for name in ("temperature", "top_k", "top_p", "min_p")
    }
    assert (sent["repeat_penalty"], sent["seed"], sent["stream"]) == (1.2, 11, True)
    assert {
        sent[n] for n in ("mirostat", "dry_multiplier", "xtc_probability", "dynatemp_range")
    } == {0}
    assert trace.config == {
        **params,
        "seed": 11,
        "max_new_tokens": 6,
        "stop": [],
    }
    assert trace.served is not None
    assert trace.served.choice == "sampling"


def test_our_own_draw_is_that_of_a_local_run_on_the_same_distributions() -> None:
    loaded = load("storyteller")
    words = [f" {n}" for n in range(loaded.vocab_size)]
    params = {"temperature": 0.9, "top_k": 40, "top_p": 0.9, "max_new_tokens": 8}
    local = decode_to_trace(
        engine.DecodeRequest("sampling", loaded, "Once upon a time", params=params, seed=1)
    )
    own = {**params, "sampler": "own", "eos_token_id": list(local.eos_token_ids)}
    with Llama(distribution_of(loaded), words).serve() as server:
        trace = run(server, "sampling", input_ids=local.prompt_ids, params=own, seed=1)
    assert trace.outputs[0].token_ids == local.outputs[0].token_ids
    assert trace.served is not None
    assert trace.served.choice == "own"
    for step, here in zip(trace.steps, local.steps, strict=True):
        assert isinstance(step.detail, ServedDetail)
        assert step.detail.draw_error == 0
        there = {c.token_id: c.processed_logprob for c in step.candidates}
        for candidate in here.candidates:
            if candidate.processed_logprob > -20:
                assert there[candidate.token_id] == pytest.approx(
                    candidate.processed_logprob, abs=1e-3
                )


def test_a_step_whose_kept_set_is_not_within_the_list_says_by_how_much_it_may_be_wrong() -> None:
    with Llama(most=5).serve() as server:
        trace = run(server, "sampling", params=OWN)
    at = list(trace.prompt_ids)
    for step in trace.steps:
        assert isinstance(step.detail, ServedDetail)
        logprobs = some_logprobs(at)
        unseen = 1 - math.fsum(sorted(map(math.exp, logprobs))[-5:])
        assert step.detail.draw_error == pytest.approx(unseen, abs=1e-4)
        assert step.detail.draw is not None
        assert step.detail.draw.racers[0].token_id == step.emit[0]
        at.append(step.emit[0])


def test_our_own_draw_ends_at_the_token_that_ends_a_text() -> None:
    def ends(ids: Sequence[int]) -> list[float]:
        sure = [-30.0] * len(WORDS)
        sure[END_ID if len(ids) == 5 else 7] = -1e-9
        return sure

    with Llama(ends).serve() as server:
        trace = run(server, "sampling", params=OWN)
    assert trace.outputs[0].finish_reason == "eos"
    assert trace.outputs[0].token_ids == (7, 7, END_ID)
    assert trace.outputs[0].text == f"{WORDS[7]}{WORDS[7]}"


def test_a_branch_continues_by_ids_and_no_text_is_tokenized(tmp_path: Path) -> None:
    llama = Llama()
    with llama.serve() as server:
        first = run(server)
        path = tmp_path / "first.json"
        json_io.save(first, path)
        out = tmp_path / "branch.json"
        asked = len(
            [a for a in server.asked if a.path == "/tokenize" and "one" in a.body["content"]]
        )
        command = ["run", "--fork", str(path), "--at", "2", "--token", "9", "--max-new-tokens", "3"]
        assert main([*command, "--model", f"endpoint:{server.base}#m", "--trace", str(out)]) == 0
        again = [a for a in server.asked if a.path == "/tokenize" and "one" in a.body["content"]]
        assert len(again) == asked
    branch = json_io.load(out)
    ids = [*first.prompt_ids, *first.outputs[0].token_ids[:2], 9]
    assert llama.completions[-1]["prompt"] == ids
    assert branch.prompt_ids == tuple(ids)
    assert branch.parent is not None
    assert (branch.parent.step, branch.parent.kept, branch.parent.token_ids) == (2, 2, (9,))
    assert list(branch.outputs[0].token_ids) == greedy_ids(ids, 3)


def test_the_ids_of_a_branch_have_the_names_that_the_server_gives_them() -> None:
    loaded = load("storyteller")
    start = tokenize_text(loaded.tokenizer, "Once upon a time")["input_ids"]
    with llama_of(loaded).serve() as server:
        trace = run(server, input_ids=start)
    assert [trace.pieces[i] for i in trace.prompt_ids] == [loaded.pieces[i] for i in start]


def test_a_conversation_uses_the_servers_template() -> None:
    llama = Llama()
    with llama.serve() as server:
        trace = run(server, messages=[{"role": "user", "content": "one two"}])
    assert trace.messages == ({"role": "user", "content": "one two"},)
    assert len(llama.completions[-1]["prompt"]) == 2


# Stops and failures


def test_a_stopped_run_keeps_what_came() -> None:
    with Llama(slow_after=2).serve() as server:
        running = decode(request(server))
        for event in running:
            if isinstance(event, StepRecorded) and event.step.index == 1:
                running.cancel()
        assert not server.released.is_set()
        events = [*decode(request(server, strategy="sampling", params=OWN))]
    assert isinstance(event, Finished)
    assert len(event.trace.steps) == 2
    assert event.trace.outputs[0].finish_reason == "cancelled"
    assert isinstance(events[-1], Finished)


def test_a_server_that_dies_in_the_middle_leaves_what_it_said() -> None:
    with Llama(dies_after=3).serve() as server:
        last = [*decode(request(server))][-1]
    assert isinstance(last, Failed)
    assert "broke off in the middle" in str(last.error)
    assert last.trace is not None
    assert len(last.trace.steps) == 3


def sums_above_one(event: dict[str, Any]) -> dict[str, Any]:
    for place in event.get("completion_probabilities", []):
        for token in place["top_logprobs"]:
            token["logprob"] = -0.1
    return event


def not_a_number(event: dict[str, Any]) -> dict[str, Any]:
    for place in event.get("completion_probabilities", []):
        place["top_logprobs"][1]["logprob"] = math.nan
    return event


def wrong_ids(event: dict[str, Any]) -> dict[str, Any]:
    for place in event.get("completion_probabilities", []):
        place["top_logprobs"][1]["id"] = 10_000
    return event


def same_ids(event: dict[str, Any]) -> dict[str, Any]:
    for place in event.get("completion_probabilities", []):
        place["top_logprobs"][1]["id"] = place["top_logprobs"][2]["id"]
    return event


@pytest.mark.parametrize("params", [{}, OWN], ids=["server", "own"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (sums_above_one, "sum to"),
        (not_a_number, "NaN"),
        (wrong_ids, "outside its vocabulary|this answer needs"),
        (same_ids, "same candidate twice|or twice"),
    ],
)
def test_a_server_that_lies_is_one_sentence(change: Any, says: str, params: dict[str, Any]) -> None:
    strategy = "sampling" if params else "greedy"
    with Llama(change=change).serve() as server, pytest.raises(EngineError, match=says):
        run(server, strategy, params=params)


def test_a_server_that_continues_other_ids_is_not_drawn_from() -> None:
    llama = Llama()
    llama.change = lambda event: {**event, "tokens_evaluated": 1}
    assert "continues texts only" in refusal(llama, "sampling", params=OWN)


def test_a_redirect_to_a_private_address_is_not_followed() -> None:
    with Llama().serve() as server:
        server.answers["/completion"] = lambda _: Reply({}, 307, {"Location": "http://10.0.0.1/"})
        with pytest.raises(EngineError, match="never followed"):
            run(server)


# What is refused


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        ("contrastive_search", "hidden states"),
        ("dola", "layers of the model"),
        ("prompt_lookup", "model on this machine"),
    ],
)
def test_other_strategies_are_refused_with_the_reason(strategy: str, reason: str) -> None:
    assert reason in refusal(Llama(), strategy)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"sampler": "both"}, "it must be server or own"),
        ({"typical_p": 0.5}, "no server is sent it"),
        ({"no_repeat_ngram_size": 2}, "no server is sent it"),
        ({**OWN, "repetition_penalty": 1.2}, "whole vocabulary"),
        ({**OWN, "typical_p": 0.5}, "whole vocabulary"),
        ({"num_return_sequences": 2}, "no server is sent it"),
        ({"temperature": -1}, "must be a number"),
    ],
)
def test_settings_that_no_server_gets_are_refused(params: dict[str, Any], says: str) -> None:
    assert says in refusal(Llama(), "sampling", params=params)


def test_a_seed_that_servers_do_not_take_is_refused() -> None:
    assert "servers take 0 to 2147483647" in refusal(Llama(), "sampling", seed=2**32)


def test_a_server_of_texts_takes_no_ids_and_not_every_setting() -> None:
    choice = {"index": 0, "text": " a", "finish_reason": "length"}
    logprobs = {
        "tokens": [" a"],
        "token_logprobs": [-0.1],
        "top_logprobs": [{" a": -0.1, " b": -3}],
    }
    answer = {"choices": [{**choice, "logprobs": logprobs}]}
    with serve_models({"/v1/completions": lambda _: Reply(answer)}) as server:
        for fields, says in (
            ({"params": {"top_k": 5}}, "top_k = 5 is not allowed: this server's interface"),
            ({"params": {**OWN}}, "continues texts only"),
            ({"params": {"top_k": 0}, "input_ids": [1, 2]}, "continues texts only"),
        ):
            with pytest.raises(EngineError, match=says):
                run(server, "sampling", **fields)


# Keys


def test_a_key_is_in_no_event_no_trace_and_no_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("DEBUG")
    with Llama().serve() as server:
        monkeypatch.setenv("PLAYGROUND_ENDPOINT_KEYS", f"{server.base} {KEY}")
        seen = repr([*decode(request(server))])
        trace = run(server, "sampling", params=OWN)
        out = tmp_path / "out.json"
        json_io.save(trace, out)
    assert {a.headers.get("authorization") for a in server.asked} == {f"Bearer {KEY}"}
    assert trace_from_dict(json.loads(json.dumps(trace_to_dict(trace)))) == trace
    assert KEY not in seen + out.read_text() + caplog.text + repr(trace)


def test_of_the_address_only_the_host_is_in_the_trace() -> None:
    with Llama().serve() as server:
        server.answers |= {f"/secret-path{path}": a for path, a in server.answers.items()}
        base = server.base.replace("/v1", "/secret-path/v1")
        made = engine.DecodeRequest(
            "greedy", f"endpoint:{base}#m", "one", params={"max_new_tokens": 2}
        )
        trace = trace_of([*decode(made)][-1])
    text = json.dumps(trace_to_dict(trace))
    assert "secret-path" not in text
    assert f"127.0.0.1:{server.server_port}" in text


# Limits


def test_runs_on_servers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_limit, "SETTINGS", dataclasses.replace(SETTINGS, max_waiting_runs=1))
    with Llama(slow_after=1).serve() as server:
        first = decode(request(server))
        assert any(isinstance(event, StepRecorded) for event in first), "it has begun"
        with pytest.raises(EngineError, match="1 runs wait for model servers already"):
            run(server)
        server.released.set()
        assert isinstance([*first][-1], Finished)
        assert run(server).outputs[0].finish_reason == "length"


def test_a_run_that_takes_too_long_keeps_what_it_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "SETTINGS", dataclasses.replace(SETTINGS, max_runtime_s=0))
    with Llama().serve() as server:
        trace = run(server, "sampling", params=OWN)
    assert len(trace.steps) == 1
    assert "The run reached the limit of 0 seconds." in trace.notes
