"""What a proxy says of a visitor counts from known proxies only."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import Request

from engine.settings import Settings
from playground.server.proxies import ForwardedHeaders, read_proxies
from playground.shell import visitors


async def _forwarded(peer, headers, proxies):
    """Return the client and the headers that the app behind the middleware sees."""
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)

    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "client": (peer, 1), "headers": sent}
    await ForwardedHeaders(app, proxies)(scope, None, None)
    return seen[0]["client"][0], {name.decode() for name, _ in seen[0]["headers"]}


_FROM = {"x-forwarded-for": "1.1.1.1, 8.8.8.8", "x-forwarded-host": "evil.example", "accept": "*"}


def _for(chain):
    return {"x-forwarded-for": chain}


@pytest.mark.parametrize(
    ("peer", "sent", "proxies", "client", "left"),
    [
        ("9.9.9.9", _FROM, "", "9.9.9.9", {"accept"}),
        ("9.9.9.9", _FROM, "10.0.0.0/8", "9.9.9.9", {"accept"}),
        ("", _FROM, "10.0.0.0/8", "", {"accept"}),
        ("10.0.0.5", _FROM, "", "10.0.0.5", {"accept"}),
        ("10.0.0.5", _FROM, "10.0.0.5", "8.8.8.8", set(_FROM)),
        ("10.0.0.5", _FROM, "10.0.0.0/8 8.8.8.8", "1.1.1.1", set(_FROM)),
        ("fd00::1", _FROM, "fd00::/8", "8.8.8.8", set(_FROM)),
        ("127.0.0.1", _FROM, "", "8.8.8.8", set(_FROM)),
        ("127.0.0.1", {"x-forwarded-for": "nonsense"}, "", "127.0.0.1", {"x-forwarded-for"}),
        ("127.0.0.1", {}, "", "127.0.0.1", set()),
        ("::ffff:10.0.0.5", _FROM, "10.0.0.0/8", "8.8.8.8", set(_FROM)),
        ("::ffff:127.0.0.1", _FROM, "", "8.8.8.8", set(_FROM)),
        ("::ffff:9.9.9.9", _FROM, "10.0.0.0/8", "::ffff:9.9.9.9", {"accept"}),
        ("127.0.0.1", _for("1.1.1.1, 8.8.8.8:443"), "", "8.8.8.8", {"x-forwarded-for"}),
        ("127.0.0.1", _for("1.1.1.1, [2001:db8::1]:443"), "", "2001:db8::1", {"x-forwarded-for"}),
        ("127.0.0.1", _for("1.1.1.1, 2001:DB8::1"), "", "2001:db8::1", {"x-forwarded-for"}),
        ("127.0.0.1", _for("1.1.1.1, ::ffff:8.8.8.8"), "", "8.8.8.8", {"x-forwarded-for"}),
        ("127.0.0.1", _for("1.1.1.1, unknown"), "", "127.0.0.1", {"x-forwarded-for"}),
        ("127.0.0.1", _for("1.1.1.1, _hidden, ::1"), "", "127.0.0.1", {"x-forwarded-for"}),
        ("127.0.0.1", _for("1.1.1.1,"), "", "127.0.0.1", {"x-forwarded-for"}),
        ("10.0.0.5", _for("1.1.1.1, 10.0.0.7:80"), "10.0.0.0/8", "1.1.1.1", {"x-forwarded-for"}),
    ],
)
def test_only_named_proxies_say_who_visits_and_under_which_host(peer, sent, proxies, client, left):
    # In a thread, because a browser's tests may have left an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(asyncio.run, _forwarded(peer, sent, read_proxies(proxies))).result()
    assert seen == (client, left)


def test_a_proxy_that_is_no_address_is_refused_at_the_start():
    with pytest.raises(
        ValueError, match="PLAYGROUND_PROXIES = 'the-proxy' is not allowed: it must"
    ):
        read_proxies("10.0.0.1 the-proxy")


@pytest.mark.parametrize(("space", "address"), [("", "1.1.1.1"), ("someone/space", "8.8.8.8")])
def test_what_a_proxy_said_is_read_a_second_time_on_a_space_alone(space, address, monkeypatch):
    monkeypatch.setenv("SPACE_ID", space)
    monkeypatch.setattr(visitors, "SETTINGS", Settings(public=True))
    scope = {
        "type": "http",
        "client": ("1.1.1.1", 0),
        "headers": [(b"x-forwarded-for", b"1.1.1.1, 8.8.8.8")],
    }
    assert visitors.request_address(Request(scope)) == address
