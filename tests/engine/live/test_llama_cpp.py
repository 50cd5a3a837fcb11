"""Runs with llama.cpp's own server: it does what the server of the other tests claims it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

import engine
from engine.analysis.many_draws import draw_many
from engine.endpoints.http_client import EndpointClient
from engine.endpoints.probe import IDS, probe
from engine.endpoints.server_lookup import ModelServer
from engine.live.resume import branch_ids
from engine.run.decoding import trace_of
from engine.serving import decode
from engine.sources.endpoint_address import EndpointAddress
from engine.trace.events import Failed, StepRecorded
from engine.trace.records import Trace
from engine.trace.served import ServedDetail
from tests.helpers.llama_cpp import serve_llama_cpp

pytestmark = pytest.mark.nightly
OWN = {"sampler": "own", "temperature": 0.8, "top_k": 40, "top_p": 0.9}


@pytest.fixture(scope="module")
def llama(llama_cpp: tuple[Path, Path]) -> Iterator[tuple[str, Popen[str]]]:
    with serve_llama_cpp(llama_cpp) as found:
        yield found


def request(base: str, strategy: str = "greedy", **fields: Any) -> engine.DecodeRequest:
    params = {"max_new_tokens": 8, **fields.pop("params", {})}
    given = {"prompt": "Once upon a time"} | fields
    if "input_ids" in fields or "messages" in fields:
        del given["prompt"]
    return engine.DecodeRequest(strategy, f"endpoint:{base}#any", params=params, **given)


def run(base: str, strategy: str = "greedy", **fields: Any) -> Trace:
    return trace_of([*decode(request(base, strategy, **fields))][-1])


def test_its_capabilities(llama: tuple[str, Popen[str]]) -> None:
    with EndpointClient(EndpointAddress.parse(llama[0])) as client:
        found = probe(ModelServer(client, "any"))
    assert (found.server, found.candidates, found.prefix) == ("llamacpp", 100, IDS)
    assert (found.distribution, found.vocab_size, found.end_ids) == ("model", 49152, (2,))
    assert found.noise is not None
    assert found.noise < 1e-3


def test_greedy_search_continues_a_branch_of_itself(llama: tuple[str, Popen[str]]) -> None:
    base = llama[0]
    whole = run(base)
    assert len(whole.prompt_ids) == 4
    assert all(isinstance(step.detail, ServedDetail) for step in whole.steps)
    ids, parent = branch_ids(whole, 3, whole.steps[3].emit[0])
    rest = run(base, input_ids=ids, parent=parent, params={"max_new_tokens": 4})
    assert rest.outputs[0].token_ids == whole.outputs[0].token_ids[4:]
    assert "".join(rest.pieces[i] for i in rest.prompt_ids) == (
        f"{whole.prompt}{''.join(whole.pieces[i] for i in whole.outputs[0].token_ids[:4])}"
    )
    for one, other in zip(whole.steps[4:], rest.steps, strict=True):
        assert one.candidates[0].raw_logprob == pytest.approx(
            other.candidates[0].raw_logprob, abs=1e-3
        )


def test_the_servers_sampling_repeats_with_its_seed(llama: tuple[str, Popen[str]]) -> None:
    base, params = llama[0], {"temperature": 1.3, "top_k": 0}
    one, two = (run(base, "sampling", params=params, seed=5) for _ in range(2))
    assert one.outputs[0].token_ids == two.outputs[0].token_ids
    texts = {run(base, "sampling", params=params, seed=s).outputs[0].text for s in range(4)}
    assert len(texts) > 1


def test_our_own_sampling_with_a_cold_temperature_is_the_servers_greedy_search(
    llama: tuple[str, Popen[str]],
) -> None:
    base = llama[0]
    cold = run(base, "sampling", params={**OWN, "temperature": 0.01}, seed=3)
    assert cold.outputs[0].token_ids == run(base).outputs[0].token_ids
    details = [step.detail for step in cold.steps]
    assert all(
        isinstance(d, ServedDetail) and d.draw is not None and d.draw_error == 0 for d in details
    )


def test_our_own_sampling_repeats_with_its_seed_and_is_exact(llama: tuple[str, Popen[str]]) -> None:
    base = llama[0]
    one, two = (run(base, "sampling", params=OWN, seed=7) for _ in range(2))
    assert one.outputs == two.outputs
    for step in one.steps:
        assert isinstance(step.detail, ServedDetail)
        assert step.detail.draw_error == 0


def test_many_draws_are_single_runs_and_exact(llama: tuple[str, Popen[str]]) -> None:
    params = {"max_new_tokens": 3, "temperature": 0.8, "top_k": 12}
    batches = list(draw_many(request(llama[0], "sampling", params=params, seed=4), 6))
    assert batches[-1].error == 0
    for draw in [draw for batch in batches for draw in batch.draws][::2]:
        alone = run(llama[0], "sampling", params={**params, "sampler": "own"}, seed=draw.seed)
        assert draw.token_ids == alone.outputs[0].token_ids


def test_a_beam_search_scores_its_text_as_the_server_does(llama: tuple[str, Popen[str]]) -> None:
    params = {"num_beams": 2, "max_new_tokens": 3, "length_penalty": 0.0}
    found = run(llama[0], "beam_search", params=params)
    ids, total = list(found.prompt_ids), 0.0
    for token_id in found.outputs[0].token_ids:
        step = run(llama[0], input_ids=ids, params={"max_new_tokens": 1}).steps[0]
        total += next(c.raw_logprob for c in step.candidates if c.token_id == token_id)
        ids.append(token_id)
    assert found.outputs[0].score == pytest.approx(total, abs=0.01)
    assert (found.eos_token_ids, len(found.special_token_ids)) == ((2,), 17)


def test_a_conversation_ends_with_the_models_own_token(llama: tuple[str, Popen[str]]) -> None:
    messages = [{"role": "user", "content": "Say hi."}]
    for strategy, params in (("greedy", {}), ("sampling", {**OWN, "temperature": 0.01})):
        trace = run(llama[0], strategy, messages=messages, params={**params, "max_new_tokens": 60})
        assert trace.outputs[0].finish_reason == "eos"


def test_a_stop_keeps_what_came(llama: tuple[str, Popen[str]]) -> None:
    running = decode(request(llama[0], params={"max_new_tokens": 500}))
    event = None
    for event in running:
        if isinstance(event, StepRecorded) and event.step.index == 3:
            running.cancel()
    trace = trace_of(event)
    assert 4 <= len(trace.steps) < 500
    assert trace.outputs[0].finish_reason == "cancelled"


def test_a_server_that_dies_in_the_middle_leaves_what_it_said(
    llama: tuple[str, Popen[str]],
) -> None:
    # The last test of the file, as no other can use the server after it.
    event = None
    for event in decode(request(llama[0], params={"max_new_tokens": 500})):
        if isinstance(event, StepRecorded) and event.step.index == 3:
            llama[1].kill()
    assert isinstance(event, Failed)
    assert event.trace is not None
    assert len(event.trace.steps) >= 4
