"""Models behind an address on the page: what is declared, asked and refused, and that no key leaves."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from engine.endpoints import http_client, pinned_address
from engine.errors import EngineError
from engine.live import decode_on_server
from engine.live.plan import refusal_on_server
from engine.run.decoding import trace_of
from engine.settings import SETTINGS
from engine.sources import endpoint_address
from engine.strategies import STRATEGIES
from playground.forms import model_options
from playground.forms.form import form_request
from playground.forms.links import open_link, to_form, to_link
from playground.forms.spec import page_spec
from playground.inspect.questions import answer_question
from playground.tabs.fork import read_request
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.llama_server import Llama
from tests.helpers.model_server import FakeServer, Reply, serve_models
from tests.helpers.sentences import clean
from tests.helpers.server import free_port, playground

PRESSES = itertools.count()
KEY = "sk-very-secret-0123456789"


def probe(model: str) -> str:
    return answer_question({"action": "probe", "model": model, "press": "p"})["says"]


def refusal(model: str) -> str:
    with pytest.raises(EngineError) as caught:
        probe(model)
    return clean(str(caught.value))


def test_the_page_offers_addresses_where_it_may_use_some(monkeypatch: pytest.MonkeyPatch) -> None:
    for public, listed, offered in (
        (False, "", True),
        (True, "", False),
        (True, "http://a.example/v1", True),
    ):
        settings = dataclasses.replace(SETTINGS, public=public, endpoints=listed)
        monkeypatch.setattr(model_options, "SETTINGS", settings)
        assert model_options.can_type_addresses() == offered


def test_the_page_knows_which_strategies_need_the_model_itself() -> None:
    told = {each["name"]: each["no_server"] for each in page_spec()["strategies"]}
    assert told == {name: refusal_on_server(name) for name in STRATEGIES}
    assert {name for name, reason in told.items() if not reason} == {
        *("greedy", "sampling", "beam_search", "beam_sampling", "diverse_beam_search", "watermark")
    }


def test_a_question_says_in_one_line_what_a_server_reports() -> None:
    with Llama().serve() as server:
        assert probe(f"endpoint:{server.base}#m").startswith("llama.cpp: 40 candidates as ids and")


def test_what_no_server_can_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "must look like http://127.0.0.1:8080/v1" in refusal("endpoint:nowhere#m")
    assert "write endpoint:ADDRESS#MODEL" in refusal("endpoint:http://127.0.0.1:1/v1#")
    nobody = f"endpoint:http://127.0.0.1:{free_port()}/v1#m"
    assert "cannot be reached: start it, or check the address" in refusal(nobody)
    assert "private network" in refusal("endpoint:http://10.0.0.1/v1#m")
    listed = {"data": [{"id": "one"}]}
    with serve_models({"/v1/models": lambda _: Reply(listed)}) as server:
        assert "has no model 'm'; it has one" in refusal(f"endpoint:{server.base}#m")
    with serve_models({"/v1/completions": lambda _: Reply({}, 401)}) as server:
        assert "wants another key" in refusal(f"endpoint:{server.base}#m")
    caps = http_client.RequestCaps(seconds=0.2)
    monkeypatch.setattr(http_client, "RequestCaps", lambda: caps)
    with serve_models({}) as server:
        server.answers["/v1/models"] = lambda _: server.wait() or Reply({})
        assert "took longer than 0.2 seconds" in refusal(f"endpoint:{server.base}#m")


def test_a_public_page_asks_only_the_servers_of_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    with Llama().serve() as server:
        model = f"endpoint:{server.base}#m"
        for listed, allowed in (("", False), (server.base, True)):
            settings = dataclasses.replace(SETTINGS, public=True, endpoints=listed)
            for module in (endpoint_address, pinned_address):
                monkeypatch.setattr(module, "SETTINGS", settings)
            if allowed:
                assert probe(model).startswith("llama.cpp")
            else:
                assert "except for those that the owner lists" in refusal(model)
                assert not server.asked


def form(server: FakeServer, strategy: str = "greedy", **params: Any) -> dict[str, Any]:
    """Return what the page sends for a run of 4 tokens."""
    return {
        "strategy": strategy,
        "prompt": "one two three",
        "model": f"endpoint:{server.base}#m",
        "seed": "0",
        "params": {"max_new_tokens": 4, **params},
        "press": f"press-{next(PRESSES)}",
    }


def run_on_page(client: Client, events: dict[str, int], asked: dict[str, Any]) -> list[Any]:
    """Return the messages of a run that a page asks for."""
    said = client.join(events[asked["strategy"]], asked)
    texts = [text for line in said.splitlines() for text in json.loads(line).get("data", [])]
    return [json.loads(text) for text in texts if isinstance(text, str) and text.startswith("{")]


def repeat_key(server: FakeServer, path: str, status: int = 200) -> None:
    """Make a server put the key that it was sent into its answers."""
    server.answers[path] = lambda asked: Reply(
        {"error": {"message": f"bad key {asked.headers['authorization']}"}}, status
    )


@pytest.mark.nightly
def test_a_key_leaves_the_server_for_its_address_only(tmp_path: Path) -> None:
    journal, log = tmp_path / "journal.db", tmp_path / "log.txt"
    with Llama().serve() as server, Llama().serve() as other:
        keys = f"{server.base} {KEY}"
        with playground(
            log, endpoint_keys=keys, journal=journal, log_level="debug", metrics_token="token"
        ) as url:
            client = Client(url)
            config = client.get("/config").json()
            events = events_of(config)
            messages = run_on_page(client, events, form(server))
            kinds = [message["kind"] for message in messages]
            assert (kinds[-1], "start" in kinds) == ("finish", True), messages
            started = next(message for message in messages if message["kind"] == "start")
            link = started["link"]
            seen = [json.dumps(messages), json.dumps(open_link(link))]
            seen.append(json.dumps(run_on_page(client, events, form(other, "sampling"))))
            name, about = "dp-ask-bus", {"id": 1}
            questions = (
                {"action": "probe", "model": f"endpoint:{server.base}#m"},
                {"action": "state", "run": started["run"]},
                {"action": "link", "search": link},
                {**form(server), "action": "write"},
                {**form(server), "action": "preflight"},
                {**form(server), "action": "defaults"},
                {"action": "files", "trace": started["header"]},
            )
            answers = [client.join(events[name], {**about, **each}) for each in questions]
            assert "candidates as ids and texts" in answers[0], answers
            seen += answers
            answer = client.call("greedy", "one", f"endpoint:{server.base}#m", {}, 0)
            assert answer[0] == "complete", answer
            seen.append(json.dumps(answer))
            for status in (200, 400, 401):
                repeat_key(server, "/completion", status)
                failed = run_on_page(client, events, form(server))
                assert failed[-1]["kind"] == "fail", failed
                seen.append(json.dumps(failed))
            bearer = {"authorization": "Bearer token"}
            seen += [client.get(path).text for path in ("/", "/audit", "/audit.json", "/config")]
            seen.append(client.get("/metrics", headers=bearer).text)
            client.close()
        assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
        assert {asked.headers.get("authorization") for asked in other.asked} == {None}
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert started["run"].encode() in stored
    assert KEY not in "".join(seen)
    assert KEY.encode() not in stored


def test_a_link_keeps_who_draws_the_tokens_of_a_model_behind_an_address_only() -> None:
    model = "endpoint:http://127.0.0.1:1/v1#m"
    asked = {"prompt": "one", "params": {"sampler": "own", "top_k": 5}, "seed": "3"}
    request = form_request({"strategy": "sampling", "model": model, **asked})
    found = open_link(to_link(request))["form"]
    assert found == to_form(request)
    assert (found["values"]["sampler"], found["values"]["top_k"]) == ("own", 5)
    for strategy, other in (("sampling", "storyteller"), ("beam_search", model)):
        form = {"strategy": strategy, "model": other, **asked}
        assert "sampler" not in to_form(form_request(form))["values"]
    wrong = to_link(dataclasses.replace(request, params={"sampler": "both"}))
    with pytest.raises(EngineError, match="sampler = 'both' is not allowed: it must be server or"):
        open_link(wrong)


def branch_form(server: FakeServer, **changes: Any) -> dict[str, Any]:
    """Return what the page sends to continue a run of this server at its step 2."""
    model = f"endpoint:{server.base}#m"
    return {
        "strategy": "sampling",
        "model": model,
        "parent_model": model,
        "merged": False,
        "prompt_ids": [8, 8, 10],
        "kept_ids": [4, 5],
        "step": 2,
        "run_id": "run",
        "end_ids": [0],
        "pieces": {},
        "token_id": 9,
        "seed": "1",
        "params": {"max_new_tokens": 3, "sampler": "own"},
        **changes,
    }


def test_a_branch_on_a_server_continues_the_very_ids_and_draws_here() -> None:
    llama = Llama()
    with llama.serve() as server:
        request = read_request(branch_form(server))
        trace = trace_of([*decode_on_server(request)][-1])
        # Its link continues the same ids, whose texts it does not know.
        opened = open_link(to_link(request))
        again = {**branch_form(server), **opened["branch"], "run_id": "", "linked": True}
        del again["parent_model"]
        assert read_request(again).input_ids == request.input_ids
    ids = [8, 8, 10, 4, 5, 9]
    drawn = list(trace.outputs[0].token_ids)
    assert [sent["prompt"] for sent in llama.completions[-3:]] == [
        [*ids, *drawn[:n]] for n in range(3)
    ]
    assert trace.prompt_ids == tuple(ids)
    assert trace.parent is not None
    assert (trace.parent.run_id, trace.parent.step, trace.parent.kept) == ("run", 2, 2)
    assert trace.served is not None
    assert trace.served.choice == "own"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"token_id": None, "text": "two"}, "continues token ids only: choose a token"),
        ({"token_id": 0}, "it ends the text"),
        ({"merged": True}, "lacks the ids of its prompt or of its text"),
        ({"prompt_ids": []}, "lacks the ids of its prompt or of its text"),
        ({"kept_ids": [900_000_001]}, "lacks the ids of its prompt or of its text"),
        ({"parent_model": "storyteller"}, "goes on at the server of its run, or with a model here"),
        ({"strategy": "contrastive_search", "params": {}}, "hidden states"),
        ({"strategy": "watermark", "params": {"repetition_penalty": 2.0}}, "it reads logits"),
        ({"model": "storyteller"}, "its tokens are not those of the run that is continued"),
    ],
    ids=str,
)
def test_a_branch_that_cannot_be_is_one_sentence(changes: dict[str, Any], says: str) -> None:
    llama = Llama()
    with llama.serve() as server:
        if "model" in changes:
            changes = {**changes, "params": {}}
        with pytest.raises(EngineError) as caught:
            read_request(branch_form(server, **changes))
        assert says in clean(str(caught.value))
        assert str(server.base) not in str(caught.value)
        assert not server.asked
