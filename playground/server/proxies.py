"""ASGI middleware that believes what a proxy says of a visitor only from known proxies.

Without it anybody could send ``X-Forwarded-For`` to count as another visitor with every request, and
``X-Forwarded-Host`` to have Gradio write addresses of another host into the page.
"""

from __future__ import annotations

import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from playground.shell.addresses import read_address

_FORWARDED = b"x-forwarded-"
_LOOPBACK = ("127.0.0.0/8", "::1/128")


def read_proxies(text: str) -> list[IPv4Network | IPv6Network]:
    """Return the networks of the setting PLAYGROUND_PROXIES, and those of this machine itself.

    Raises:
        ValueError: the setting contains something else; the message names it.
    """
    found: list[IPv4Network | IPv6Network] = []
    for name in (*_LOOPBACK, *text.split()):
        try:
            found.append(ip_network(name, strict=False))
        except ValueError:
            raise ValueError(
                f"PLAYGROUND_PROXIES = {name!r} is not allowed: it must be addresses or networks"
                " such as 10.0.0.5 or 10.0.0.0/8, separated by spaces"
            ) from None
    return found


class ForwardedHeaders:
    """ASGI middleware that sets the client of a request, and removes forwarded headers of others.

    Args:
        app: The next ASGI app.
        proxies: Networks of the proxies. None believes everybody, as on a Space, which only the
            platform's own proxies can reach.
    """

    def __init__(self, app: Any, proxies: list[IPv4Network | IPv6Network] | None) -> None:
        self.app, self.proxies = app, proxies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection."""
        if scope["type"] in ("http", "websocket") and self.proxies is not None:
            scope = self._with_client(scope)
        await self.app(scope, receive, send)

    def _with_client(self, scope: Any) -> Any:
        peer = (scope.get("client") or ("", 0))[0]
        if not self._is_proxy(peer):
            kept = [pair for pair in scope["headers"] if not pair[0].startswith(_FORWARDED)]
            return {**scope, "headers": kept}
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        chain = b",".join(forwarded).decode("latin1").split(",")
        # Every proxy appends the address that it saw; what comes before the first other one, from
        # the end, was written by the visitor. So was what comes before an entry that is no address.
        others = (text for text in reversed(chain) if not self._is_proxy(text))
        client = read_address(next(others, ""))
        return {**scope, "client": (str(client) if client else peer, 0)}

    def _is_proxy(self, text: str) -> bool:
        address = read_address(text)
        return any(address in network for network in self.proxies or () if address is not None)


def forwarded_headers_arguments(proxies: str) -> dict[str, Any]:
    """Return the middleware's arguments on this machine.

    Args:
        proxies: the setting PLAYGROUND_PROXIES.
    """
    return {"proxies": None if os.environ.get("SPACE_ID") else read_proxies(proxies)}
