"""Many draws from a model behind an address: each text is that of a run, and beginnings are asked for once."""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import Any

import pytest

import engine
from engine.analysis import server_draws
from engine.analysis.many_draws import draw_many
from engine.errors import DecodeError, EngineError
from engine.models.loading import load
from engine.run.decoding import decode_to_trace, trace_of
from engine.serving import decode
from engine.settings import SETTINGS
from engine.statistics.prefix_tree import DrawBatch
from tests.helpers.llama_server import Llama, llama_of, some_logprobs
from tests.helpers.model_server import FakeServer

PARAMS = {"max_new_tokens": 4, "temperature": 0.8, "top_k": 6}


def request(server: FakeServer, **params: Any) -> engine.DecodeRequest:
    asked = {**PARAMS, **params}
    model = f"endpoint:{server.base}#m"
    return engine.DecodeRequest("sampling", model, "one two three", params=asked, seed=3)


def joined(batches: list[DrawBatch]) -> list[Any]:
    return [draw for batch in batches for draw in batch.draws]


def test_every_seed_draws_what_a_run_draws_from_the_server() -> None:
    with Llama().serve() as server:
        draws = joined(list(draw_many(request(server), 12)))
        assert [draw.seed for draw in draws] == list(range(3, 15))
        for draw in draws[::4]:
            asked = request(server, sampler="own")
            trace = trace_of([*decode(dataclasses.replace(asked, seed=draw.seed))][-1])
            assert draw.token_ids == trace.outputs[0].token_ids
            logprobs = [
                next(c for c in step.candidates if c.token_id == step.emit[0]).processed_logprob
                for step in trace.steps
            ]
            assert draw.logprobs == pytest.approx(logprobs, abs=1e-5)


def test_they_are_the_draws_of_the_same_model_on_this_machine() -> None:
    loaded = load("storyteller")
    params = {"max_new_tokens": 3, "temperature": 0.9, "top_k": 20}
    prompt = "Once upon a time"
    here = engine.DecodeRequest("sampling", loaded, prompt, params=params, seed=5)
    ends = {"eos_token_id": list(decode_to_trace(here).eos_token_ids)}
    with llama_of(loaded, most=100).serve() as server:
        model = f"endpoint:{server.base}#m"
        there = engine.DecodeRequest("sampling", model, prompt, params=params | ends, seed=5)
        served = list(draw_many(there, 8))
    assert [d.token_ids for d in joined(served)] == [
        d.token_ids for d in joined(list(draw_many(here, 8)))
    ]
    assert served[-1].error == 0
    assert served[-1].pieces == {i: loaded.pieces[i] for d in joined(served) for i in d.token_ids}


def test_each_beginning_is_asked_for_once() -> None:
    llama = Llama()
    with llama.serve() as server:
        draws = joined(list(draw_many(request(server), 40)))
    prompt = llama.completions[-1]["prompt"][:3]
    beginnings = {(*prompt, *d.token_ids[:n]) for d in draws for n in range(len(d.token_ids))}
    # The first two requests are the probe's.
    asked = [tuple(body["prompt"]) for body in llama.completions[2:]]
    assert len(asked) == len(beginnings) < sum(len(d.token_ids) for d in draws)
    assert {*asked} == beginnings


def test_what_the_server_did_not_list_is_counted() -> None:
    with Llama(most=5).serve() as server:
        [*_, last] = draw_many(request(server, temperature=1.0, top_k=0, max_new_tokens=1), 6)
    prompt = last.prompt_ids
    unseen = 1 - math.fsum(sorted(map(math.exp, some_logprobs(prompt)))[-5:])
    assert last.error == pytest.approx(unseen, abs=1e-4)


def test_a_stop_ends_them_and_the_next_draws_work() -> None:
    llama, cancelled = Llama(), threading.Event()

    def stops_at_five(ids: Any) -> Any:
        if len(llama.completions) == 5:
            cancelled.set()
        return some_logprobs(ids)

    llama.distribution = stops_at_five
    with llama.serve() as server:
        assert not joined(list(draw_many(request(server, max_new_tokens=60), 12, cancelled)))
        assert len(llama.completions) <= 6
        assert len(joined(list(draw_many(request(server), 3)))) == 3


def test_a_server_that_dies_leaves_the_texts_that_were_drawn() -> None:
    llama = Llama()

    def dies(event: dict[str, Any]) -> dict[str, Any]:
        return event if len(llama.completions) < 12 else {"error": "gone"}

    llama.change = dies
    with llama.serve() as server:
        batches = list[DrawBatch]()
        with pytest.raises(EngineError):
            batches.extend(draw_many(request(server), 200))
    seeds = [draw.seed for draw in joined(batches)]
    assert seeds == list(range(3, 3 + len(seeds)))
    assert seeds


def test_draws_that_take_too_long_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_draws, "SETTINGS", dataclasses.replace(SETTINGS, max_runtime_s=0))
    with Llama().serve() as server, pytest.raises(DecodeError, match="limit of 0 seconds"):
        list(draw_many(request(server), 4))


@pytest.mark.parametrize(
    ("count", "params", "says"),
    [
        (1, {}, "draws"),
        (8, {"max_new_tokens": 65}, "max_new_tokens"),
        (8, {"typical_p": 0.5}, "typical_p"),
    ],
)
def test_bad_values_are_one_sentence(count: int, params: dict[str, Any], says: str) -> None:
    with Llama().serve() as server, pytest.raises(EngineError, match=says) as caught:
        list(draw_many(request(server, **params), count))
    assert "\n" not in str(caught.value)


def test_a_server_that_lists_no_ids_is_refused() -> None:
    def without_ids(event: dict[str, Any]) -> dict[str, Any]:
        for step in event.get("completion_probabilities", ()):
            for token in step["top_logprobs"]:
                token.pop("id", None)
        return event

    with (
        Llama(change=without_ids).serve() as server,
        pytest.raises(EngineError, match="Our own filters cannot draw"),
    ):
        list(draw_many(request(server), 4))
