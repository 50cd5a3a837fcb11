"""Two tokens say what a model server reports."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cli.main import main
from engine.endpoints.http_client import EndpointClient
from engine.endpoints.probe import IDS, TEXT, ServerReport, probe
from engine.endpoints.server_lookup import ModelServer
from engine.errors import DecodeError, EngineError, ModelError
from engine.sources.endpoint_address import EndpointAddress
from tests.helpers import model_server
from tests.helpers.endpoint_answers import read
from tests.helpers.llama_server import END_ID, WORDS, Llama
from tests.helpers.model_server import Asked, Reply, serve_models

KEY = "sk-very-secret-0123456789"


def probe_server(server: model_server.FakeServer, model: str = "m") -> ServerReport:
    with EndpointClient(EndpointAddress.parse(server.base)) as client:
        return probe(ModelServer(client, model))


def test_llamacpp_reports_ids_and_its_own_probabilities() -> None:
    llama = Llama()
    with llama.serve() as server:
        found = probe_server(server)
    assert found == ServerReport(
        "llamacpp", True, True, len(WORDS), "model", IDS, False, 0.0, len(WORDS), (END_ID,)
    )
    assert [body["temperature"] for body in llama.completions] == [0.0, 2.0]
    assert {body["n_predict"] for body in llama.completions} == {1}


def test_probabilities_after_the_filters_are_recognised() -> None:
    llama = Llama()

    def heat(event: dict[str, Any]) -> dict[str, Any]:
        """Answer the second request as a server that scales its probabilities."""
        if llama.completions[-1]["temperature"] != 2.0:
            return event
        for place in event["completion_probabilities"]:
            for token in (place, *place["top_logprobs"]):
                token["logprob"] = token["logprob"] / 2 - 5
        return event

    llama.change = heat
    with llama.serve() as server:
        found = probe_server(server)
    assert (found.distribution, found.noise) == ("sampled", None)


def test_a_server_that_reads_other_tokens_than_it_was_sent_continues_texts_only() -> None:
    llama = Llama()
    llama.change = lambda event: {**event, "tokens_evaluated": event["tokens_evaluated"] + 1}
    with llama.serve() as server:
        assert probe_server(server).prefix == TEXT


def test_recorded_answers_of_vllm_are_probed() -> None:
    completion = Reply(read("vllm/cmpl_5.json"))
    answers = {
        "/v1/models": lambda _: Reply({"data": [{"id": "m", "owned_by": "vllm"}]}),
        "/tokenize": lambda _: Reply(read("vllm/tokenize.json")),
        "/v1/completions": lambda _: completion,
    }
    with serve_models(answers) as server:
        found = probe_server(server)
    assert (found.server, found.distribution, found.noise) == ("vllm", "model", 0)
    # The first one asks for the size of the vocabulary.
    _, *bodies = (asked.body for asked in server.asked if asked.path == "/v1/completions")
    assert all(body["return_token_ids"] and body["prompt"] for body in bodies)
    assert all(body["top_k"] == -1 and body["repetition_penalty"] == 1 for body in bodies)


def test_a_server_that_refuses_20_candidates_is_asked_for_5() -> None:
    def complete(asked: Asked) -> Reply:
        if asked.body["logprobs"] is not None and asked.body.get("prompt") and not refused:
            refused.append(asked)
            return Reply({"error": {"message": "at most 5"}}, 400)
        return Reply(read("llamacpp/cmpl_5.json"))

    refused: list[Asked] = []
    with serve_models({"/v1/completions": complete}) as server:
        found = probe_server(server)
    assert len(refused) == 1
    assert (found.candidates, found.prefix) == (5, TEXT)


def test_a_model_that_the_server_has_not_is_named_with_those_it_has() -> None:
    listed = {"data": [{"id": "one"}, {"id": "two"}]}
    with (
        serve_models({"/v1/models": lambda _: Reply(listed)}) as server,
        pytest.raises(ModelError, match="has no model 'm'; it has one, two"),
    ):
        probe_server(server)


def test_an_answer_without_logprobs_is_one_sentence() -> None:
    answer = {"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}
    with (
        serve_models({"/v1/completions": lambda _: Reply(answer)}) as server,
        pytest.raises(DecodeError, match="reports no log-probabilities"),
    ):
        probe_server(server)


@pytest.mark.parametrize(
    "body", [{}, {"choices": 1}, {"choices": [{"logprobs": []}]}, {"error": "no"}]
)
def test_another_answer_is_one_sentence(body: dict[str, Any]) -> None:
    with (
        serve_models({"/v1/completions": lambda _: Reply(body)}) as server,
        pytest.raises(EngineError),
    ):
        probe_server(server)


@pytest.mark.parametrize("props", [{"eos_token": 1}, {"eos_token": "two words"}, []])
def test_props_that_cannot_be_read_do_not_stop_the_run(props: Any) -> None:
    with Llama().serve() as server:
        server.answers["/props"] = lambda _: Reply(props if isinstance(props, dict) else b"[]")
        assert probe_server(server).end_ids == ()


def test_the_command_prints_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Llama().serve() as server:
        monkeypatch.setenv("PLAYGROUND_ENDPOINT_KEYS", f"{server.base} {KEY}")
        assert main(["probe", server.base, "--model", "m"]) == 0
    assert capsys.readouterr().out == (
        "llama.cpp: 40 candidates as ids and texts; the model's own probabilities; continues token "
        "ids; reports no probabilities of the prompt; two requests differ by 0 nats.\n"
    )
    assert main(["probe", "http://10.0.0.1/v1", "--model", "m"]) == 2
    said = capsys.readouterr()
    assert "private network" in said.err
    assert KEY not in said.err + said.out
