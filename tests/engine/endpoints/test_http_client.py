"""Requests to model servers are bounded, go to one address, and leave no key anywhere."""

from __future__ import annotations

import dataclasses
import logging
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest

from engine.endpoints.http_client import EndpointClient, RequestCaps
from engine.errors import Cancelled, DecodeError, EngineError, ModelError
from engine.sources.endpoint_address import EndpointAddress
from tests.helpers.model_server import Asked, FakeServer, Reply, serve_models, to_events
from tests.helpers.patience import PATIENCE_S

KEY = "sk-very-secret-0123456789"


def client_of(server: FakeServer, **caps: float) -> EndpointClient:
    limits = dataclasses.replace(RequestCaps(), **caps)
    return EndpointClient(EndpointAddress.parse(server.base), limits)


def refusal(answer: Callable[[Asked], Reply], **caps: float) -> str:
    """Return the sentence about an answer that a client does not take."""
    with (
        serve_models({"/v1/x": answer}) as server,
        client_of(server, **caps) as client,
        pytest.raises(DecodeError) as caught,
    ):
        client.post("/v1/x", {"a": 1})
    return str(caught.value)


def test_a_name_is_resolved_once_and_every_request_goes_there() -> None:
    calls: list[str] = []

    def rebind(host: str, port: int) -> list[str]:
        calls.append(host)
        return ["127.0.0.1"] if len(calls) == 1 else ["10.0.0.1"]

    with serve_models({"/v1/x": lambda _: Reply({"a": 1})}) as server:
        address = EndpointAddress.parse(f"http://models.example:{server.server_port}/v1")
        with EndpointClient(address, resolve=rebind) as client:
            assert [client.get("/v1/x"), client.get("/v1/x")] == [{"a": 1}] * 2
    assert calls == ["models.example"]
    assert {a.headers["host"] for a in server.asked} == {f"models.example:{server.server_port}"}


def test_the_address_of_a_name_at_which_no_server_listens_is_passed_over() -> None:
    with serve_models({"/v1/x": lambda _: Reply({"a": 1})}) as server:
        address = EndpointAddress.parse(f"http://localhost:{server.server_port}/v1")
        with EndpointClient(address, resolve=lambda *_: ["::1", "127.0.0.1"]) as client:
            assert client.get("/v1/x") == {"a": 1}


def test_no_proxy_and_no_netrc_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:
        file.write("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", netrc)
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serve_models({"/v1/x": lambda _: Reply({})}) as server, client_of(server) as client:
        client.get("/v1/x")
    assert "authorization" not in server.asked[0].headers


# Answers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 304])
def test_redirects_are_not_followed(status: int) -> None:
    reached: list[Asked] = []

    def other(asked: Asked) -> Reply:
        reached.append(asked)
        return Reply({})

    with serve_models({"/private": other}) as private:
        where = f"http://127.0.0.1:{private.server_port}/private"
        said = refusal(lambda _: Reply({}, status, {"Location": where}))
    assert "redirects to another address, which is never followed" in said
    assert "private" not in said
    assert not reached


def test_an_answer_of_50_mb_is_cut_off() -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(50):
            sent += 1
            yield b" " * 1_000_000

    assert "larger than 2000000 bytes" in refusal(lambda _: Reply(chunks()), answer_bytes=2_000_000)
    assert sent < 50, "the rest was not read"


def test_a_compressed_answer_is_refused() -> None:
    said = refusal(lambda _: Reply(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))
    assert "compresses its answers unasked" in said


def test_a_server_that_sends_no_end_is_left() -> None:
    with serve_models({}) as server:

        def drip(_: Asked) -> Reply:
            def chunks() -> Iterator[bytes]:
                yield b"{"
                server.wait()

            return Reply(chunks())

        server.answers["/v1/x"] = drip
        with (
            client_of(server, seconds=0.2) as client,
            pytest.raises(DecodeError, match=r"longer than 0\.2 s"),
        ):
            client.get("/v1/x")


def test_a_server_that_does_not_begin_is_left() -> None:
    with serve_models({}) as server:

        def hang(_: Asked) -> Reply:
            server.wait()
            return Reply({})

        server.answers["/v1/x"] = hang
        with (
            client_of(server, seconds=0.2) as client,
            pytest.raises(DecodeError, match=r"longer than 0\.2 s"),
        ):
            client.get("/v1/x")


def test_a_stopped_run_ends_its_request() -> None:
    cancelled, begun = threading.Event(), threading.Event()
    with serve_models({}) as server:

        def hang(_: Asked) -> Reply:
            begun.set()
            server.wait()
            return Reply({})

        server.answers["/v1/x"] = hang
        threading.Thread(
            target=lambda: begun.wait(PATIENCE_S) and cancelled.set(), daemon=True
        ).start()
        address = EndpointAddress.parse(server.base)
        with EndpointClient(address, cancelled=cancelled) as client, pytest.raises(Cancelled):
            client.get("/v1/x")
        assert not server.released.is_set()


def test_a_connection_that_breaks_off_is_one_sentence() -> None:
    assert "broke off in the middle" in refusal(lambda _: Reply([b'{"a": '], dies=True))


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    with serve_models({}) as server:
        pass
    with (
        client_of(server) as client,
        pytest.raises(DecodeError, match="cannot be reached: start it"),
    ):
        client.get("/v1/x")


def test_requests_are_counted() -> None:
    with (
        serve_models({"/v1/x": lambda _: Reply({})}) as server,
        client_of(server, requests=2) as client,
    ):
        client.get("/v1/x")
        client.get("/v1/x")
        with pytest.raises(DecodeError, match="more than 2 requests"):
            client.get("/v1/x")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", "not valid JSON"),
        (b"", "empty"),
        (b'{"a": NaN}', "NaN"),
        (b"\xff{", "UTF-8"),
        (b"[" * 200, "deep"),
    ],
)
def test_other_answers_than_json_are_one_sentence(body: bytes, says: str) -> None:
    said = refusal(lambda _: Reply([body] if body else []))
    assert "cannot be read" in said
    assert says in said


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"error": {"message": "no such model"}}, 404, "error 404: no such model"),
        ({"error": "busy\x1b[31m"}, 503, "error 503: busy [31m"),
        ({"detail": "gone"}, 500, "error 500: gone"),
        ({"error": {"message": "no"}}, 401, "PLAYGROUND_ENDPOINT_KEYS"),
        (b"<html>", 500, "error 500: ?"),
    ],
)
def test_errors_are_in_the_servers_words(body: object, status: int, says: str) -> None:
    assert says in refusal(lambda _: Reply(body, status))


def test_a_stream_gives_its_events_as_they_come() -> None:
    objects = [{"n": n, "text": "a\u2028b\r"} for n in range(3)]
    with serve_models({}) as server, client_of(server) as client:

        def halves(_: Asked) -> Reply:
            def chunks() -> Iterator[bytes]:
                first, *rest = to_events(objects)
                yield from (first[:7], first[7:])
                server.wait()
                yield from (b": ping\n\nevent: x\n", *rest)

            return Reply(chunks())

        server.answers["/v1/x"] = halves
        events = client.stream("/v1/x", {})
        assert next(events) == objects[0], "before the server goes on"
        server.released.set()
        assert [*events] == objects[1:]


# Keys


def test_a_key_goes_to_its_own_address_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_models({"/v1/x": lambda _: Reply({})}) as server:
        monkeypatch.setenv(
            "PLAYGROUND_ENDPOINT_KEYS", f"https://a.example/v1 other {server.base}/ {KEY}"
        )
        for base in (server.base, server.base.removesuffix("/v1"), f"{server.base}/b"):
            with EndpointClient(EndpointAddress.parse(base)) as client:
                client.get("/v1/x")
    sent = [asked.headers.get("authorization") for asked in server.asked]
    assert sent == [f"Bearer {KEY}", None, None]


@pytest.mark.parametrize("value", [KEY, f"http://a {KEY} http://b", f"{KEY} {KEY}"])
def test_a_wrong_list_of_keys_is_not_quoted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYGROUND_ENDPOINT_KEYS", value)
    with pytest.raises(ModelError, match="must be pairs") as caught:
        EndpointClient(EndpointAddress.parse("http://127.0.0.1:1/v1"))
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "reply",
    [
        Reply({"error": {"message": f"Wrong key {KEY}"}}, 401),
        Reply({"error": {"message": "x" * 290 + KEY}}, 400),
        Reply({"error": f"Wrong key {KEY}"}, 500),
        Reply({}, 302, {"Location": f"http://127.0.0.1:1/?key={KEY}"}),
        Reply({"content": [{"text": f"a {KEY} b"}]}),
        Reply(f'{{"a": "{KEY[:5]}\\u{ord(KEY[5]):04x}{KEY[6:]}"}}'.encode()),
        Reply([f"<html>{KEY}".encode()], dies=True),
        Reply(f"<html>{KEY}".encode()),
    ],
)
def test_a_key_is_in_no_error_and_no_log(
    reply: Reply, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serve_models({"/v1/x": lambda _: reply}) as server:
        monkeypatch.setenv("PLAYGROUND_ENDPOINT_KEYS", f"{server.base} {KEY}")
        with client_of(server) as client, pytest.raises(EngineError) as caught:
            client.post("/v1/x", {"a": 1})
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    seen = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert KEY[:12] not in seen
