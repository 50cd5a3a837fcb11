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
from engine.live.plan import refusal_on_server
from engine.settings import SETTINGS
from engine.sources import endpoint_address
from engine.strategies import STRATEGIES
from playground.forms import model_options
from playground.forms.links import open_link
from playground.forms.spec import page_spec
from playground.inspect.questions import answer_question
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
    assert {name for name, reason in told.items() if not reason} == {"greedy", "sampling"}


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
