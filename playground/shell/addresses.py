"""Reads network addresses as sockets and proxies write them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address of an entry such as 10.0.0.5, 10.0.0.5:443 or [fd00::1]:443; None if it is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket of both families names an IPv4 peer ::ffff:10.0.0.5.
    return getattr(address, "ipv4_mapped", None) or address
