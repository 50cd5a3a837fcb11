"""Addresses of model servers: how they are written, and which of them are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from engine.endpoints import pinned_address
from engine.endpoints.pinned_address import pin_address
from engine.errors import DecodeError, ModelError
from engine.models.loading import load
from engine.models.tokenizer_only import load_tokenizer_only
from engine.run.preflight import preflight
from engine.settings import SETTINGS
from engine.sources import endpoint_address, source
from engine.sources.endpoint_address import EndpointAddress
from engine.sources.source import Endpoint, Source

PRIVATE = (
    *("10.1.2.3", "192.168.0.1", "172.16.5.5", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
    *("::", "fe80::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "224.0.0.1"),
    *("255.255.255.255", "::ffff:169.254.169.254"),
)
LOOPBACK = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1")


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets settings for all who decide about addresses."""

    def change(**values: object) -> None:
        changed = dataclasses.replace(SETTINGS, **values)
        for module in (endpoint_address, pinned_address, source):
            monkeypatch.setattr(module, "SETTINGS", changed)

    return change


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("HTTPS://API.Example.com:443/v1/", "https://api.example.com/v1"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://localhost:80", "http://localhost"),
    ],
)
def test_an_address_has_one_normal_form(text: str, normal: str) -> None:
    assert str(EndpointAddress.parse(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "127.0.0.1:8080",
            "ftp://a/v1",
            "file:///etc/passwd",
            "http://",
            "http://a:0",
            "http://a:x",
        ),
        *(
            "http://me:secret@a/v1",
            "http://a/v1?key=1",
            "http://a/v1#m",
            "http://a/../x",
            "http://a//x",
        ),
        *(
            "http://a b",
            "http://a\nb",
            "http://ä.de",
            "http://a\\@b",
            "http://[::1",
            "http://a:99999",
        ),
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ModelError, match="must look like http"):
        EndpointAddress.parse(text)


@pytest.mark.parametrize(
    "name", ["endpoint:", "endpoint:http://a", "endpoint:http://a#", "endpoint:#m"]
)
def test_a_name_without_a_model_or_an_address_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"must look like http|endpoint:ADDRESS#MODEL"):
        Source.parse(name)


def test_a_name_gives_the_address_and_the_model() -> None:
    found = Source.parse("endpoint:http://127.0.0.1:8080/v1#owner/model:q4 #2")
    assert isinstance(found, Endpoint)
    assert found.folder() is None
    assert (str(found.address), found.model) == ("http://127.0.0.1:8080/v1", "owner/model:q4 #2")


@pytest.mark.parametrize("ip", PRIVATE)
def test_private_networks_are_refused_unless_they_are_listed(
    ip: str, settings: Callable[..., None]
) -> None:
    address = EndpointAddress.parse("http://models.example:8000/v1")
    with pytest.raises(ModelError, match="private network"):
        pin_address(address, lambda *_: [ip])
    # One private address among open ones is enough: who answers the name chooses which is used.
    with pytest.raises(ModelError, match="private network"):
        pin_address(address, lambda *_: ["93.184.215.14", ip])
    settings(endpoints=f"https://other.example {address}/")
    assert pin_address(address, lambda *_: [ip])
    with pytest.raises(ModelError, match="private network"):
        pin_address(dataclasses.replace(address, port=8001), lambda *_: [ip])


@pytest.mark.parametrize("ip", [*LOOPBACK, "93.184.215.14", "2606:4700::1111"])
def test_this_machine_and_the_internet_need_no_list(ip: str, settings: Callable[..., None]) -> None:
    address = EndpointAddress.parse("http://models.example/v1")
    assert pin_address(address, lambda *_: [ip])
    settings(public=True)
    with pytest.raises(ModelError, match="off here"):
        pin_address(address, lambda *_: [ip])
    with pytest.raises(ModelError, match="off here"):
        Source.parse(f"endpoint:{address}#m").check_offered()
    settings(public=True, endpoints=str(address))
    assert pin_address(address, lambda *_: [ip])
    assert Source.parse(f"endpoint:{address}#m").is_offered


def test_a_wrong_list_is_one_sentence(settings: Callable[..., None]) -> None:
    settings(public=True, endpoints="models.example")
    with pytest.raises(
        ModelError, match=r"PLAYGROUND_ENDPOINTS = 'models\.example' is not allowed"
    ):
        EndpointAddress.parse("http://models.example").check_allowed()


def test_a_host_without_an_address_is_one_sentence() -> None:
    address = EndpointAddress.parse("http://nowhere.invalid/v1")

    def fail(*_: object) -> list[str]:
        raise OSError

    for resolve in (fail, lambda *_: []):
        with pytest.raises(DecodeError, match=r"nowhere\.invalid was not found"):
            pin_address(address, resolve)


@pytest.mark.parametrize(
    "use",
    [
        load,
        lambda name: preflight(Source.parse(name)),
        lambda name: load_tokenizer_only(Source.parse(name)),
    ],
)
def test_what_needs_the_models_files_is_refused(use: Callable[[str], object]) -> None:
    with pytest.raises(ModelError, match="A server computes this model"):
        use("endpoint:http://127.0.0.1:1/v1#m")
