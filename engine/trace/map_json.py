"""Maps of dials as versioned, strict JSON: what the maps of one and of two dials have in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import TraceError
from engine.messages import add_templates, restore_templates
from engine.trace import checks
from engine.trace.dial_map import ENDS
from engine.trace.json_io import read_value, to_dict
from engine.trace.schema import file_schema
from engine.trace.value_types import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MAX_BYTES = 4_000_000
Map = TypeVar("Map", bound="DataclassInstance")


@dataclass(frozen=True)
class MapFormat(Generic[Map]):
    """A kind of map as JSON, with the name of its version."""

    kind: type[Map]
    schema: str
    """Name of the version, a field of the JSON object."""
    title: str
    text_kind: type
    """The part of a map whose ``end`` is one of ENDS."""
    refuse: Callable[[], TraceError]
    """Makes the error for JSON values that are no object of this version."""
    check: Callable[[Map], None]
    """Raises TraceError if the parts of a map do not fit together."""

    def to_dict(self, found: Map) -> dict[str, Any]:
        """Return the JSON object of a map."""
        return add_templates({"schema": self.schema, **to_dict(found)})

    def from_dict(self, data: JsonValue) -> Map:
        """Make a map from parsed JSON.

        Raises:
            TraceError: a field is invalid; the message names it.
        """
        if not isinstance(data, dict) or data.get("schema") != self.schema:
            raise self.refuse()
        fields = {name: one for name, one in restore_templates(data).items() if name != "schema"}
        found: Map = read_value(fields, self.kind, "map")
        self.check(found)
        return found

    def load(self, data: bytes) -> Map:
        """Read and validate a map from JSON bytes, optionally gzipped.

        Raises:
            TraceError: it is no valid map.
        """
        return self.from_dict(checks.read_json_strict(data, _MAX_BYTES))

    def dump(self, found: Map) -> str:
        """Return the map as one line of strict JSON."""
        return json.dumps(self.to_dict(found), allow_nan=False, separators=(",", ":"))

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (draft 2020-12) of a map."""
        found = file_schema(self.kind, self.schema, self.title)
        found["$defs"][self.text_kind.__name__]["properties"]["end"] = {"enum": list(ENDS)}
        return found
