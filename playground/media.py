"""Pictures and sounds that visitors give to models: in memory alone, for a while, and each visitor's own.

A page sends the bytes once and names them from then on by the hash of what they hold. The name is of no use to
anybody else: it is looked for among what the same visitor has given, and who that is the page alone knows.
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
from engine.media import Picture, Sound, info_of, picture_of, sound_of
from engine.media.shelf import KEPT_MEDIA
from engine.settings import SETTINGS
from engine.trace.records import MediaInfo

KINDS = ("image", "audio")
EXAMPLE, HELD = "example:", "held:"
VISITOR = "visitor"
"""What a page calls whoever reads it: it goes along with what is asked and is written down nowhere."""
LIMITS = {"image": SETTINGS.max_picture_bytes, "audio": SETTINGS.max_sound_bytes}
"""Bytes that a file may have."""
_READ: dict[str, Callable[[Any], Any]] = {"image": picture_of, "audio": sound_of}
_OF_NOTHING = "0" * 64
_NAME = re.compile(r"[0-9a-f]{32}")
_LEAST = 2000
"""Bytes that even the smallest file counts for: there may be very many of them."""
_SHARE = 4
"""Of the memory for all, one address may have one part in so many."""
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


@dataclass
class _Kept:
    data: bytes
    address: str
    used_at: float

    @property
    def size(self) -> int:
        """Bytes that it counts for."""
        return max(len(self.data), _LEAST)


_Key = tuple[str, str, str]


class HeldMedia:
    """What visitors have given, as they sent it.

    Args:
        most_bytes: all of it together; what was used longest ago goes first.
        own_bytes: the same of one visitor.
        age_s: seconds after which something goes that nobody has used.
    """

    def __init__(self, most_bytes: int, own_bytes: int, age_s: float) -> None:
        self.most_bytes, self.own_bytes, self.age_s = most_bytes, own_bytes, age_s
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def keep(self, visitor: str, kind: str, sha256: str, data: bytes, address: str = "") -> None:
        """Keep what a visitor has given; what is in the way goes.

        Args:
            visitor: whose it is, see ``is_visitor``.
            kind: one of KINDS.
            sha256: of what it holds.
            data: the file.
            address: where the visitor asks from; all of one address have a share of the memory.
        """
        with self._lock:
            self._kept.pop((visitor, kind, sha256), None)
            self._sweep()
            coming = _Kept(data, address, time.monotonic())
            self._shrink(self.own_bytes - coming.size, lambda key, _: key[0] == visitor)
            if address:
                share = self.most_bytes // _SHARE
                self._shrink(share - coming.size, lambda _, kept: kept.address == address)
            self._shrink(self.most_bytes - coming.size, lambda _, __: True)
            self._kept[visitor, kind, sha256] = coming
            self._wake()

    def find(self, visitor: str, kind: str, sha256: str) -> bytes | None:
        """Return what a visitor has given, None where it is not here, or is another's."""
        with self._lock:
            self._sweep()
            kept = self._kept.get((visitor, kind, sha256))
            if kept is None:
                return None
            kept.used_at = time.monotonic()
            self._kept.move_to_end((visitor, kind, sha256))
            return kept.data

    @property
    def held_bytes(self) -> int:
        """How much memory counts as taken."""
        with self._lock:
            return sum(kept.size for kept in self._kept.values())

    def clear(self) -> None:
        """Let go of all of it."""
        with self._lock:
            self._kept.clear()

    def _shrink(self, most: int, whose: Callable[[_Key, _Kept], bool]) -> None:
        own = [key for key, kept in self._kept.items() if whose(key, kept)]
        total = sum(self._kept[key].size for key in own)
        for key in own:
            if total <= most:
                return
            total -= self._kept.pop(key).size

    def _sweep(self) -> None:
        before = time.monotonic() - self.age_s
        # The order is that of use.
        while self._kept and next(iter(self._kept.values())).used_at < before:
            self._kept.popitem(last=False)

    def _wake(self) -> None:
        """See to it that what has expired goes though nobody asks for anything."""
        if self._timer is None and self._kept:
            self._timer = threading.Timer(self.age_s, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        with self._lock:
            self._timer = None
            self._sweep()
            self._wake()


MEDIA = HeldMedia(
    SETTINGS.max_held_media_bytes, SETTINGS.max_visitor_media_bytes, SETTINGS.media_age_s
)


def is_visitor(name: Any) -> bool:
    """Return whether something may be what a page calls its reader: 128 bits that nobody can guess."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def take(visitor: str, kind: str, data: bytes, address: str = "") -> MediaInfo:
    """Read a file that a visitor sends and keep it; return what it holds.

    Raises:
        ParameterError: it is no picture or sound that can be read here; one sentence.
    """
    info = info_of(_READ[kind](data))
    MEDIA.keep(visitor, kind, info.sha256, data, address)
    return info


def of_form(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that say which picture and which sound a form gives; none, no fields.

    Args:
        asked: ``image`` and ``audio``, each ``example:NAME`` or ``held:`` and the hash of what the
            ``visitor`` has given.

    Raises:
        ParameterError: it is none of these, or is not here any more.
    """
    found, lacks = of_link(asked, asked.get(VISITOR))
    for kind in lacks:
        digest = str(asked.get(kind)).removeprefix(HELD)
        raise ParameterError(kind, f"{digest[:12]}…", "it is not here any more", "choose it again")
    return found


def of_link(query: Mapping[str, Any], visitor: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the same of what an address names, and which kinds of it are not here for this visitor.

    Raises:
        ParameterError: it names something else than a form does.
    """
    found: dict[str, Any] = {}
    lacks: list[str] = []
    for kind in KINDS:
        if query.get(kind) in (None, ""):
            continue
        named = _named(kind, query.get(kind), visitor)
        if named is None:
            lacks.append(kind)
        else:
            found[kind] = named
    return found, lacks


def _named(kind: str, name: Any, visitor: Any) -> Picture | Sound | str | None:
    """Return what a form names, None for what has been let go of, or was never this visitor's."""
    if isinstance(name, str) and name.startswith(EXAMPLE):
        return name
    if not isinstance(name, str) or not name.startswith(HELD):
        raise ParameterError(kind, name, "a form names an example or what was sent here")
    digest = name.removeprefix(HELD)
    data = MEDIA.find(visitor, kind, digest) if is_visitor(visitor) else None
    if data is None:
        return None
    # It was opened when it came; whoever else has opened the same has opened the same.
    return KEPT_MEDIA.get(digest) or _READ[kind](data)


def of_call(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same of a program's call, which brings the bytes along.

    Args:
        given: ``image`` and ``audio``, each ``example:NAME`` or a file in base64, also as a data URL.

    Raises:
        ParameterError: it is none of these.
    """
    named = {kind: given[kind] for kind in KINDS if given.get(kind) is not None}
    return {kind: _brought(kind, value) for kind, value in named.items()}


def _brought(kind: str, value: Any) -> Picture | Sound | str:
    allowed = "it must be a file in base64, or example: and a name"
    if not isinstance(value, str):
        raise ParameterError(kind, value, allowed)
    if value.startswith(EXAMPLE):
        return value
    head = _DATA_URL.match(value)
    try:
        data = base64.b64decode(value[head.end() if head else 0 :], validate=True)
    except (binascii.Error, ValueError):
        raise ParameterError(kind, value[:40], allowed) from None
    return _READ[kind](data)


def name_of(given: Any) -> str | None:
    """Return what a form calls a picture or sound of a request or of a trace, None for none."""
    if given is None or isinstance(given, str):
        return given
    return f"{EXAMPLE}{given.example}" if given.example else f"{HELD}{given.sha256}"


def names_in(infos: tuple[MediaInfo, ...]) -> dict[str, Any]:
    """Return what a form calls the picture and the sound of a trace, None for what it has none of."""
    named = {info.kind: name_of(info) for info in infos}
    return {kind: named.get(kind) for kind in KINDS}


def only_own(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question in whose trace nothing is named by its hash but examples and what its visitor has given.

    What was opened of late is at hand for whoever knows its hash, and a trace that was handed on has that of another
    visitor's picture: a model is not to read it for anybody else.

    Args:
        asked: what the page sent; its ``trace`` may be anything.
    """
    trace = asked.get("trace")
    if not isinstance(trace, dict):
        return dict(asked)
    infos = trace.get("media")
    if not isinstance(infos, list) or not infos:
        return dict(asked)
    apart = [
        _hidden(info, asked.get(VISITOR)) if isinstance(info, dict) else info for info in infos
    ]
    return {**asked, "trace": {**trace, "media": apart}}


def _hidden(info: dict[str, Any], visitor: Any) -> dict[str, Any]:
    """Return what a trace says of a picture or a sound, under a hash of nothing where it is not the visitor's."""
    kind, sha256, example = info.get("kind"), info.get("sha256"), info.get("example")
    if kind not in KINDS or not isinstance(sha256, str):
        return info
    if is_visitor(visitor) and MEDIA.find(visitor, kind, sha256) is not None:
        return info
    if isinstance(example, str) and _hash_of(kind, example) == sha256:
        return info
    return {**info, "sha256": _OF_NOTHING}


def _hash_of(kind: str, example: str) -> str | None:
    try:
        return _READ[kind](f"{EXAMPLE}{example}").sha256
    except ParameterError:
        return None


def kept_apart(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page sent without who reads it, as it may be written down."""
    return {name: value for name, value in asked.items() if name != VISITOR}
