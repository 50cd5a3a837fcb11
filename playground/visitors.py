"""Who asks, as far as a server can know it: an address, and what the page calls its session."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_address
from typing import Any

from gradio.context import LocalContext

from engine.run.visitor import NOBODY, VISITOR, Visitor
from engine.settings import SETTINGS

_NETWORK_BITS = 64
"""A household or a firm has all IPv6 addresses that begin alike so far."""


def remember() -> None:
    """Note for what is begun next who asks for it; it is asked within a handler of Gradio's."""
    VISITOR.set(visitor_of(LocalContext.request.get(None)))


def session() -> str:
    """Return what Gradio calls the session that asks now; empty outside of its handlers."""
    return visitor_of(LocalContext.request.get(None)).session


def visitor_of(request: Any) -> Visitor:
    """Return who sent a request of Gradio's; nobody in particular for None.

    Where the machine is its owner's, everybody at it has one address.
    """
    if request is None:
        return NOBODY
    host = getattr(getattr(request, "client", None), "host", None) or ""
    forwarded = dict(request.headers).get("x-forwarded-for", "")
    session = str(getattr(request, "session_hash", "") or "")
    return Visitor(address_of(str(host), str(forwarded), SETTINGS.public), session)


def asking_from(request: Any) -> str:
    """Return the address of who sent a request of Starlette's, as ``address_of``."""
    host = request.client.host if request.client else ""
    return address_of(host, request.headers.get("x-forwarded-for", ""), SETTINGS.public)


def address_of(host: str, forwarded: str, public: bool) -> str:
    """Return the address of a visitor, empty for that of this machine's owner.

    Args:
        host: who has connected; on a Space one of the platform's own machines.
        forwarded: the X-Forwarded-For header. Whoever sends a request can begin it with anything, and
            every proxy adds to its end: the last address of the public network is the one to believe.
        public: whether this is a Space.
    """
    if public:
        for text in (*reversed(forwarded.split(",")), host):
            found = _parsed(text)
            if found is not None and found.is_global:
                return _grouped(found)
        return host
    found = _parsed(host)
    return "" if found is None or found.is_loopback else _grouped(found)


def _parsed(text: str) -> Any:
    try:
        return ip_address(text.strip())
    except ValueError:
        return None


def _grouped(address: Any) -> str:
    if address.version == 4:
        return str(address)
    return str(IPv6Network((address, _NETWORK_BITS), strict=False).network_address)
