"""Pictures and sounds that visitors upload: in memory only, for a limited time, and private.

A page sends the bytes once and refers to them by their content hash afterwards. A hash only finds
files of the same visitor, and the visitor's id is known to their page only.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ParameterError
from engine.media import Picture, Sound, to_media_info, to_picture, to_sound
from engine.media.media_cache import MEDIA_CACHE
from engine.settings import SETTINGS
from engine.trace.records import MediaInfo

KINDS = ("image", "audio")
EXAMPLE_PREFIX, HELD_PREFIX = "example:", "held:"
VISITOR_FIELD = "visitor"
"""Field of a request with the visitor's id.

It is never stored: Gradio's session changes with every connection.
"""
LIMITS = {"image": SETTINGS.max_picture_bytes, "audio": SETTINGS.max_sound_bytes}
"""Largest file of each kind, in bytes."""
_READERS: dict[str, Callable[[Any], Any]] = {"image": to_picture, "audio": to_sound}
_UNKNOWN_SHA256 = "0" * 64
_VISITOR_ID = re.compile(r"[0-9a-f]{32}")
_MIN_COUNTED_BYTES = 2000
"""Least bytes that a file counts for, so that many tiny files cannot fill the store."""
_ADDRESS_SHARE = 4
"""One address may use one part in this many of the store."""
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


@dataclass
class _StoredFile:
    data: bytes
    address: str
    used_at: float

    @property
    def size(self) -> int:
        """Bytes that the file counts for."""
        return max(len(self.data), _MIN_COUNTED_BYTES)


_Key = tuple[str, str, str]


class MediaStore:
    """Store of uploaded files, unchanged, with least-recently-used eviction.

    Args:
        most_bytes: Limit for all files together.
        own_bytes: Limit for one visitor's files.
        age_s: Seconds after which an unused file is removed.
    """

    def __init__(self, most_bytes: int, own_bytes: int, age_s: float) -> None:
        self.most_bytes, self.own_bytes, self.age_s = most_bytes, own_bytes, age_s
        self._kept: OrderedDict[_Key, _StoredFile] = OrderedDict()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def add(self, visitor: str, kind: str, sha256: str, data: bytes, address: str = "") -> None:
        """Store a visitor's file, evicting older files where a limit would be exceeded.

        Args:
            visitor: Owner of the file, see ``is_visitor_id``.
            kind: One of KINDS.
            sha256: Hash of the decoded content.
            data: The file's bytes.
            address: Network address of the visitor. All visitors of one address share a limit.
        """
        with self._lock:
            self._kept.pop((visitor, kind, sha256), None)
            self._sweep()
            new_file = _StoredFile(data, address, time.monotonic())
            self._evict_to(self.own_bytes - new_file.size, lambda key, _: key[0] == visitor)
            if address:
                share = self.most_bytes // _ADDRESS_SHARE
                self._evict_to(share - new_file.size, lambda _, kept: kept.address == address)
            self._evict_to(self.most_bytes - new_file.size, lambda _, __: True)
            self._kept[visitor, kind, sha256] = new_file
            self._schedule_sweep()

    def find(self, visitor: str, kind: str, sha256: str) -> bytes | None:
        """Return a visitor's file, None if it is not stored or belongs to another visitor."""
        with self._lock:
            self._sweep()
            kept = self._kept.get((visitor, kind, sha256))
            if kept is None:
                return None
            kept.used_at = time.monotonic()
            self._kept.move_to_end((visitor, kind, sha256))
            return kept.data

    def clear(self) -> None:
        """Remove all files."""
        with self._lock:
            self._kept.clear()

    def _evict_to(self, most: int, whose: Callable[[_Key, _StoredFile], bool]) -> None:
        own = [key for key, kept in self._kept.items() if whose(key, kept)]
        total = sum(self._kept[key].size for key in own)
        for key in own:
            if total <= most:
                return
            total -= self._kept.pop(key).size

    def _sweep(self) -> None:
        before = time.monotonic() - self.age_s
        # The dictionary is ordered by last use, oldest first.
        while self._kept and next(iter(self._kept.values())).used_at < before:
            self._kept.popitem(last=False)

    def _schedule_sweep(self) -> None:
        """Start a timer that removes expired files even if no request comes."""
        if self._timer is None and self._kept:
            self._timer = threading.Timer(self.age_s, self._sweep_on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _sweep_on_timer(self) -> None:
        with self._lock:
            self._timer = None
            self._sweep()
            self._schedule_sweep()


MEDIA = MediaStore(
    SETTINGS.max_held_media_bytes, SETTINGS.max_visitor_media_bytes, SETTINGS.media_age_s
)


def is_visitor_id(name: Any) -> bool:
    """Return whether a value has the form of a visitor id: 128 random bits in hexadecimal."""
    return isinstance(name, str) and _VISITOR_ID.fullmatch(name) is not None


def store_upload(visitor: str, kind: str, data: bytes, address: str = "") -> MediaInfo:
    """Decode an uploaded file, store it and return its description.

    Raises:
        ParameterError: The file cannot be read as a picture or sound.
    """
    info = to_media_info(_READERS[kind](data))
    MEDIA.add(visitor, kind, info.sha256, data, address)
    return info


def media_from_form(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``image`` and ``audio`` fields of a request from a form.

    A kind without a file has no field.

    Args:
        payload: ``image`` and ``audio``, each ``example:NAME`` or ``held:`` followed by the hash of a
            file of the ``visitor``.

    Raises:
        ParameterError: A value has another form, or its file is not stored any more.
    """
    found, lacks = media_from_link(payload, payload.get(VISITOR_FIELD))
    for kind in lacks:
        digest = str(payload.get(kind)).removeprefix(HELD_PREFIX)
        raise ParameterError(
            kind,
            f"{digest[:12]}…",
            "it is not here any more",
            "choose it again",
        )
    return found


def media_from_link(query: Mapping[str, Any], visitor: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the media fields of a link, and the kinds whose file is not stored for this visitor.

    Raises:
        ParameterError: A value is not of the forms that ``media_from_form`` takes.
    """
    found: dict[str, Any] = {}
    lacks: list[str] = []
    for kind in KINDS:
        if query.get(kind) in (None, ""):
            continue
        named = _resolve_name(kind, query.get(kind), visitor)
        if named is None:
            lacks.append(kind)
        else:
            found[kind] = named
    return found, lacks


def _resolve_name(kind: str, name: Any, visitor: Any) -> Picture | Sound | str | None:
    """Return the picture, sound or example of a form's value, None for a missing file."""
    if isinstance(name, str) and name.startswith(EXAMPLE_PREFIX):
        return name
    if not isinstance(name, str) or not name.startswith(HELD_PREFIX):
        raise ParameterError(kind, name, "a form names an example or what was sent here")
    digest = name.removeprefix(HELD_PREFIX)
    data = MEDIA.find(visitor, kind, digest) if is_visitor_id(visitor) else None
    if data is None:
        return None
    # Equal hashes mean equal content, so a file decoded for another visitor will do.
    return MEDIA_CACHE.get(digest) or _READERS[kind](data)


def media_from_call(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the media fields of an API call, which contains the bytes.

    Args:
        given: ``image`` and ``audio``, each ``example:NAME``, a file in base64, or a data URL.

    Raises:
        ParameterError: A value has another form.
    """
    named = {kind: given[kind] for kind in KINDS if given.get(kind) is not None}
    return {kind: _decode_media(kind, value) for kind, value in named.items()}


def _decode_media(kind: str, value: Any) -> Picture | Sound | str:
    allowed = "it must be a file in base64, or example: and a name"
    if not isinstance(value, str):
        raise ParameterError(kind, value, allowed)
    if value.startswith(EXAMPLE_PREFIX):
        return value
    head = _DATA_URL.match(value)
    try:
        data = base64.b64decode(value[head.end() if head else 0 :], validate=True)
    except (binascii.Error, ValueError):
        raise ParameterError(kind, value[:40], allowed) from None
    return _READERS[kind](data)


def to_form_name(given: Any) -> str | None:
    """Convert a picture or sound of a request or trace to its form value, None for none."""
    if given is None or isinstance(given, str):
        return given
    return f"{EXAMPLE_PREFIX}{given.example}" if given.example else f"{HELD_PREFIX}{given.sha256}"


def form_names(infos: tuple[MediaInfo, ...]) -> dict[str, Any]:
    """Map each kind to the form value of a trace's picture or sound, None if it has none."""
    named = {info.kind: to_form_name(info) for info in infos}
    return {kind: named.get(kind) for kind in KINDS}


def hide_foreign_media(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question whose trace contains no media hashes of other visitors.

    The engine opens recently decoded media for anyone who knows the hash, and a shared trace
    contains the hash of another visitor's picture. Such hashes are replaced, so a model cannot read
    the picture for somebody else.

    Args:
        payload: What the page sent. Its ``trace`` may be any value.
    """
    trace = payload.get("trace")
    if not isinstance(trace, dict):
        return dict(payload)
    infos = trace.get("media")
    if not isinstance(infos, list) or not infos:
        return dict(payload)
    apart = [
        _hide_foreign_hash(info, payload.get(VISITOR_FIELD)) if isinstance(info, dict) else info
        for info in infos
    ]
    return {**payload, "trace": {**trace, "media": apart}}


def _hide_foreign_hash(info: dict[str, Any], visitor: Any) -> dict[str, Any]:
    """Return a trace's media entry, its hash replaced if it is another visitor's file."""
    kind, sha256, example = info.get("kind"), info.get("sha256"), info.get("example")
    if kind not in KINDS or not isinstance(sha256, str):
        return info
    if is_visitor_id(visitor) and MEDIA.find(visitor, kind, sha256) is not None:
        return info
    if isinstance(example, str) and _example_hash(kind, example) == sha256:
        return info
    return {**info, "sha256": _UNKNOWN_SHA256}


def _example_hash(kind: str, example: str) -> str | None:
    try:
        return _READERS[kind](f"{EXAMPLE_PREFIX}{example}").sha256
    except ParameterError:
        return None


def without_visitor(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request without the visitor id, safe to store."""
    return {name: value for name, value in payload.items() if name != VISITOR_FIELD}
