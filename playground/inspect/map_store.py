"""Maps of dials that were computed: for a while in memory, and in the journal as long as the messages of runs.

So they are there after a restart. A map of another version is computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import TraceError
from engine.trace.map_json import MapFormat
from playground.storage.journal import JOURNAL

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MAX_STORED_CHARS = 1_000_000
"""Longest map that the journal stores; it removes the oldest maps and runs beyond its own limit."""
Map = TypeVar("Map", bound="DataclassInstance")


class MapStore(Generic[Map]):
    """Maps of one kind, by their run's id and their dials.

    Args:
        kind: name of the question; other kinds have other ids in the journal.
        form: the maps as JSON.
        most: maps in memory.
    """

    def __init__(self, kind: str, form: MapFormat[Map], most: int) -> None:
        self._kind, self._form, self._most = kind, form, most
        self._maps: OrderedDict[tuple[str, ...], Map] = OrderedDict()
        self._lock = Lock()

    def find(self, *key: str) -> Map | None:
        """Return a map from memory or the journal; None if neither has it."""
        with self._lock:
            found = self._maps.get(key)
        if found is None:
            found = self._read_stored(key)
            if found is not None:
                self._keep_in_memory(key, found)
        return found

    def store(self, found: Map, *key: str, in_journal: bool = True) -> None:
        """Keep a map in memory and, unless it is too long, in the journal."""
        self._keep_in_memory(key, found)
        if not in_journal:
            return
        text = self._form.dump(found)
        if len(text) <= _MAX_STORED_CHARS:
            # Read back from strict JSON, which has no tuples and only texts as keys.
            message: dict[str, Any] = {"kind": "finish", "map": json.loads(text)}
            JOURNAL.open(self._journal_id(key)).add(message)

    def forget(self) -> None:
        """Forget all maps in memory."""
        with self._lock:
            self._maps.clear()

    def _read_stored(self, key: tuple[str, ...]) -> Map | None:
        for message in JOURNAL.stored_messages(self._journal_id(key))[-1:]:
            try:
                return self._form.from_dict(json.loads(message)["map"])
            except (KeyError, TraceError):
                # A map of another version, or one whose process ended while it wrote it.
                return None
        return None

    def _journal_id(self, key: tuple[str, ...]) -> str:
        """Return the id of a map in the journal, which nobody can guess who lacks the run's id."""
        return hashlib.sha256(":".join((self._kind, *key)).encode()).hexdigest()

    def _keep_in_memory(self, key: tuple[str, ...], found: Map) -> None:
        with self._lock:
            self._maps[key] = found
            while len(self._maps) > self._most:
                self._maps.popitem(last=False)
