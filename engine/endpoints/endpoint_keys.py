"""Keys of model servers, which come from the environment and go to their own address only."""

from __future__ import annotations

import os

from engine.errors import ModelError
from engine.sources.endpoint_address import EndpointAddress


def find_key(address: EndpointAddress) -> str | None:
    """Return the key of an address in PLAYGROUND_ENDPOINT_KEYS, None without one.

    Raises:
        ModelError: the variable holds no pairs of addresses and keys.
    """
    # Read at each use and not kept in Settings, whose values the audit page shows.
    words = os.environ.get("PLAYGROUND_ENDPOINT_KEYS", "").split()
    try:
        keys = {
            EndpointAddress.parse(base): key
            for base, key in zip(words[::2], words[1::2], strict=True)
        }
    except (ModelError, ValueError):
        # The message must not quote the variable: it contains keys.
        raise ModelError(
            "PLAYGROUND_ENDPOINT_KEYS must be pairs of an address and a key, all separated by spaces."
        ) from None
    key = keys.get(address)
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ModelError(
            "The key of {host} in PLAYGROUND_ENDPOINT_KEYS must be printable ASCII.",
            host=address.netloc,
        )
    return key
