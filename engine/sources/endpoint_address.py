"""Addresses of model servers: how they are written, and which of them this deployment may use."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from engine.errors import ModelError, format_value
from engine.messages import Message
from engine.settings import SETTINGS

PREFIX = "endpoint:"
"""Begins the name of a model that a server computes: ``endpoint:ADDRESS#MODEL``."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_CHARS = 300


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """Base address of a model server, in normal form.

    Attributes:
        scheme: http or https.
        host: name or IP address in lower case, an IPv6 address without brackets.
        port: 1 to 65535.
        path: empty, or begins with a slash and does not end with one.
    """

    scheme: str
    host: str
    port: int
    path: str = ""

    @staticmethod
    def parse(text: str) -> EndpointAddress:
        """Return the address in a text like ``http://127.0.0.1:8080/v1``.

        Raises:
            ModelError: it is none, or has a name, a password, a query or a fragment.
        """
        parsed = _parse(text) if _is_plain(text) else None
        if parsed is None:
            raise ModelError(
                "The address of a model server must look like http://127.0.0.1:8080/v1: http or "
                "https, a host, a port if needed and a path, without a name, password or query."
            )
        return parsed

    @property
    def netloc(self) -> str:
        """Host and port as in an address; the port is left out if it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_listed(self) -> bool:
        """Whether the owner of this deployment lists it in PLAYGROUND_ENDPOINTS."""
        return self in _read_list(SETTINGS.endpoints)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"

    def check_allowed(self) -> None:
        """Check that this deployment may use the address, as far as its text decides it.

        Raises:
            ModelError: this is a public Space whose owner does not list it.
        """
        if SETTINGS.public and not self.is_listed:
            raise ModelError(
                "Models behind an address are off here, except for those that the owner lists. "
                "Open a recorded answer in Library, Replay, or run the playground on your machine."
            )


def parse_endpoint_name(name: str) -> tuple[EndpointAddress, str]:
    """Return the address and the model in a name like ``endpoint:http://127.0.0.1:8080/v1#model``.

    Raises:
        ModelError: the address is not allowed, or no model is named.
    """
    address, separator, model = name.removeprefix(PREFIX).partition("#")
    if not separator or not model.strip() or len(name) > _MAX_CHARS or not model.isprintable():
        raise ModelError(
            "model = {name} is not allowed: write endpoint:ADDRESS#MODEL in at most {n} characters, "
            "such as endpoint:http://127.0.0.1:8080/v1#my-model.",
            name=Message("endpoint:…"),
            n=_MAX_CHARS,
        )
    return EndpointAddress.parse(address), model


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and not set(text) & set(" \\@?#")


def _parse(text: str) -> EndpointAddress | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # a port that is no number, or a bracket that does not close
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0:
        return None
    path = parts.path.rstrip("/")
    if "//" in path or any(part in (".", "..") for part in path.split("/")):
        return None
    return EndpointAddress(parts.scheme, parts.hostname, port or _DEFAULT_PORTS[parts.scheme], path)


def _read_list(setting: str) -> list[EndpointAddress]:
    """Return the addresses of the owner's list.

    Raises:
        ModelError: one of them is no address.
    """
    try:
        return [EndpointAddress.parse(text) for text in setting.split()]
    except ModelError:
        raise ModelError(
            "PLAYGROUND_ENDPOINTS = {value} is not allowed: it must be addresses like "
            "http://127.0.0.1:8080/v1, separated by spaces.",
            value=format_value(setting),
        ) from None
