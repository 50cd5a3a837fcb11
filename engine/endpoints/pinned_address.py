"""Resolves the address of a model server once, and refuses addresses of private networks."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from engine.errors import DecodeError, ModelError
from engine.settings import SETTINGS
from engine.sources.endpoint_address import EndpointAddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], list[str]]
_CONNECT_S = 5.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def resolve_host(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host.

    Raises:
        OSError: it has none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


def pin_address(address: EndpointAddress, resolve: Resolver = resolve_host) -> str:
    """Return the one IP address that a run connects to, whatever its name means later.

    Raises:
        ModelError: this deployment may not use it.
        DecodeError: the host has no address.
    """
    address.check_allowed()
    try:
        found = [
            ipaddress.ip_address(text.partition("%")[0])
            for text in resolve(address.host, address.port)
        ]
    except (OSError, ValueError, UnicodeError):
        found = []
    if not found:
        raise DecodeError("The host {host} was not found; check the address.", host=address.host)
    # A name may have several addresses. None of them may be private, whichever is tried.
    if not address.is_listed and not all(map(_is_open, found)):
        raise ModelError(
            "The host {host} is in a private network: the owner may list its address in "
            "PLAYGROUND_ENDPOINTS.",
            host=address.host,
        )
    return str(_first_reachable(found, address.port))


def _first_reachable(found: Sequence[IpAddress], port: int) -> IpAddress:
    """Return the first address that takes a connection, or the first of all if none does.

    A name such as localhost often means ::1 first, while servers listen on 127.0.0.1 only.
    """
    for ip in found if len(found) > 1 else ():
        try:
            socket.create_connection((str(ip), port), timeout=_CONNECT_S).close()
        except OSError:
            continue
        return ip
    return found[0]


def _is_open(ip: IpAddress) -> bool:
    """Return True for an address that needs no listing: of the internet, or of this machine."""
    ip = _unwrap(ip)
    if ip.is_loopback:
        return not SETTINGS.public
    return ip.is_global and not ip.is_multicast


def _unwrap(ip: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address stands for, else the address itself."""
    if not isinstance(ip, ipaddress.IPv6Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)
