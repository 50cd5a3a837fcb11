"""Identification of visitors by network address and Gradio session."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_address
from typing import Any

from gradio.context import LocalContext

from engine.run.visitor import NOBODY, VISITOR, Visitor
from engine.settings import SETTINGS

_NETWORK_BITS = 64
"""Prefix that counts as one address: a household or firm owns a whole /64 of IPv6."""


def remember() -> None:
    """Set the current visitor for work started next. Call it in a Gradio handler."""
    VISITOR.set(visitor_of(LocalContext.request.get(None)))


def session() -> str:
    """Return the Gradio session of the current request, "" outside of a handler."""
    return visitor_of(LocalContext.request.get(None)).session


def visitor_of(request: Any) -> Visitor:
    """Return the visitor of a Gradio request, ``NOBODY`` for None.

    On a private deployment all users at the machine itself share one address.
    """
    if request is None:
        return NOBODY
    host = getattr(getattr(request, "client", None), "host", None) or ""
    forwarded = dict(request.headers).get("x-forwarded-for", "")
    session = str(getattr(request, "session_hash", "") or "")
    return Visitor(address_of(str(host), str(forwarded), SETTINGS.public), session)


def asking_from(request: Any) -> str:
    """Return the visitor address of a Starlette request, see ``address_of``."""
    host = request.client.host if request.client else ""
    return address_of(host, request.headers.get("x-forwarded-for", ""), SETTINGS.public)


def address_of(host: str, forwarded: str, public: bool) -> str:
    """Return the address of a visitor, "" for a local user of a private deployment.

    Args:
        host: Peer address of the connection; on a Space one of the platform's machines.
        forwarded: The X-Forwarded-For header. A client can put anything at its start, and every
            proxy appends to its end, so the last public address is the trustworthy one.
        public: Whether this is a Space.
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
