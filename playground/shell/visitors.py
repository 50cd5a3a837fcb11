"""Identification of visitors by network address and Gradio session."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_address
from typing import Any

from gradio.context import LocalContext

from engine.run.visitor import NO_VISITOR, VISITOR, Visitor
from engine.settings import SETTINGS

VISITOR_HEADER = "x-visitor"
"""Request header with the visitor's id. A form on another site cannot send a custom header."""
_NETWORK_BITS = 64
"""Prefix that counts as one address: a household or firm owns a whole /64 of IPv6."""


def set_current_visitor() -> None:
    """Set the current visitor for work started next. Call it in a Gradio handler."""
    VISITOR.set(visitor_from_request(LocalContext.request.get(None)))


def current_session() -> str:
    """Return the Gradio session of the current request, "" outside of a handler."""
    return visitor_from_request(LocalContext.request.get(None)).session


def visitor_from_request(request: Any) -> Visitor:
    """Return the visitor of a Gradio request, ``NO_VISITOR`` for None.

    On a private deployment all users at the machine itself share one address.
    """
    if request is None:
        return NO_VISITOR
    host = getattr(getattr(request, "client", None), "host", None) or ""
    forwarded = dict(request.headers).get("x-forwarded-for", "")
    session = str(getattr(request, "session_hash", "") or "")
    return Visitor(visitor_address(str(host), str(forwarded), SETTINGS.public), session)


def request_address(request: Any) -> str:
    """Return the visitor address of a Starlette request, see ``visitor_address``."""
    host = request.client.host if request.client else ""
    return visitor_address(host, request.headers.get("x-forwarded-for", ""), SETTINGS.public)


def visitor_address(host: str, forwarded: str, public: bool) -> str:
    """Return the address of a visitor, "" for a local user of a private deployment.

    Args:
        host: Peer address of the connection; on a Space one of the platform's machines.
        forwarded: The X-Forwarded-For header. A client can put anything at its start, and every
            proxy appends to its end, so the last public address is the trustworthy one.
        public: Whether this is a Space.
    """
    if public:
        for text in (*reversed(forwarded.split(",")), host):
            found = _parse_address(text)
            if found is not None and found.is_global:
                return _group_address(found)
        return host
    found = _parse_address(host)
    return "" if found is None or found.is_loopback else _group_address(found)


def _parse_address(text: str) -> Any:
    try:
        return ip_address(text.strip())
    except ValueError:
        return None


def _group_address(address: Any) -> str:
    if address.version == 4:
        return str(address)
    return str(IPv6Network((address, _NETWORK_BITS), strict=False).network_address)
