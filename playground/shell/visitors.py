"""Identification of visitors by network address and Gradio session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv6Network
from typing import Any

from gradio.context import LocalContext

from engine.run.visitor import NO_VISITOR, VISITOR, Visitor
from engine.settings import SETTINGS
from playground.shell.addresses import read_address

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
    forwarded = _forwarded_for(dict(request.headers))
    session = str(getattr(request, "session_hash", "") or "")
    return Visitor(visitor_address(str(host), str(forwarded), SETTINGS.public), session)


def request_address(request: Any) -> str:
    """Return the visitor address of a Starlette request, see ``visitor_address``."""
    host = request.client.host if request.client else ""
    return visitor_address(host, _forwarded_for(request.headers), SETTINGS.public)


def _forwarded_for(headers: Mapping[str, str]) -> str:
    # Elsewhere the server has read the header, which may name proxies with public addresses.
    return headers.get("x-forwarded-for", "") if os.environ.get("SPACE_ID") else ""


def visitor_address(host: str, forwarded: str, public: bool) -> str:
    """Return the address of a visitor, "" for a local user of a private deployment.

    Args:
        host: Peer address of the connection; on a Space one of the platform's machines.
        forwarded: The X-Forwarded-For header on a Space, else "". A client can put anything at its start, and every
            proxy appends to its end, so the last public address is the trustworthy one.
        public: Whether strangers use this deployment.
    """
    if public:
        for text in reversed(forwarded.split(",")):
            found = read_address(text)
            if found is None:  # a visitor may have written what comes before it
                break
            if found.is_global:
                return _group_address(found)
    found = read_address(host)
    if public:
        return _group_address(found) if found is not None and found.is_global else host
    return "" if found is None or found.is_loopback else _group_address(found)


def _group_address(address: Any) -> str:
    if address.version == 4:
        return str(address)
    return str(IPv6Network((address, _NETWORK_BITS), strict=False).network_address)
