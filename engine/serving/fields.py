"""A request's fields as plain values, for the way to a replica."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.errors import ParameterError
from engine.media import Picture, Sound, open_media, serialize_medium
from engine.run.request import DecodeRequest, check_request
from engine.sources.catalogue import CATALOGUE
from engine.strategies import STRATEGIES
from engine.trace.records import Parent

_PLAIN_TYPES = (str, bytes, int, float, bool, type(None))


def to_fields(request: DecodeRequest) -> dict[str, Any]:
    """Return the fields of a request.

    Raises:
        ParameterError: the request is invalid or holds an object that cannot be sent.
    """
    fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    # Opened here: a path is valid on this machine only.
    media = open_media(request.image, request.audio)
    fields |= {"image": _pack_medium(media.picture), "audio": _pack_medium(media.sound)}
    parent = fields.pop("parent")
    found = next((name for name, value in fields.items() if not _is_plain(value)), None)
    if found is not None or not isinstance(parent, Parent | None):
        # A value that is invalid everywhere gets the usual error first.
        check_request(request)
        name = found or "parent"
        allowed = "replicas are given names and plain values, as an object stays in its own process"
        raise ParameterError(name, fields.get(name), allowed, "name it, or decode in this process")
    return {**fields, "parent": parent}


def _pack_medium(medium: Picture | Sound | None) -> str | bytes | None:
    return None if medium is None else serialize_medium(medium)


def routing_model(request: DecodeRequest) -> str:
    """Return the model that decides which replica serves a request, "" for any replica.

    Built-in models load in a moment everywhere; others are routed to replicas that have them.
    """
    strategy = STRATEGIES.get(request.strategy) if isinstance(request.strategy, str) else None
    name = request.model or (strategy.default_model if strategy else None)
    if not isinstance(name, str) or (name in CATALOGUE and CATALOGUE[name].embedded):
        return ""
    return name


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN_TYPES)
