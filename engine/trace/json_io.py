"""Traces as versioned, strict JSON: finite numbers only, with null for -inf.

Files hold steps in columns. Messages to a page, and files of version 1, hold them in rows.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
import zlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.errors import TraceError, format_value
from engine.messages import add_templates, join_words, restore_templates
from engine.settings import SETTINGS
from engine.trace import checks
from engine.trace.columns import to_columns, to_rows
from engine.trace.details import DETAIL_TYPES
from engine.trace.records import COLUMNS_SCHEMA, SCHEMA, Step, Trace
from engine.trace.value_types import (
    LOGPROB,
    JsonValue,
    field_types,
    is_record_type,
    is_unicode,
    split_annotation,
)
from engine.type_guards import is_list, is_mapping

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Reader: TypeAlias = "Callable[[JsonValue, str], Any]"
"""Reads a JSON value at a place, which errors name."""
_DETAIL_KINDS = {cls: kind for kind, cls in DETAIL_TYPES.items()}
_PLAIN_TYPES = (int, str, bool, type(None))
_DETAIL_CLASSES = (*DETAIL_TYPES.values(),)


def to_dict(value: object) -> Any:
    """Convert a record to JSON values: dataclasses become objects, details carry their ``kind``."""
    # Fast paths: nearly all values are numbers and texts.
    cls = type(value)
    if isinstance(value, float):
        # JSON has no infinity. Reading turns null back into -inf, for log-probabilities only.
        return value if math.isfinite(value) else None
    if cls in _PLAIN_TYPES:
        return value
    if is_list(value):
        return [to_dict(item) for item in value]
    if is_mapping(value):
        # JSON keys are texts; reading converts token ids back.
        return {str(key): to_dict(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        fields = {name: to_dict(getattr(value, name)) for name in _field_names(cls)}
        kind = _DETAIL_KINDS.get(cls)
        return {"kind": kind, **fields} if kind else fields
    return value


def step_to_dict(step: Step) -> dict[str, Any]:
    """Return the JSON object of one step."""
    return to_dict(step)


def trace_fields(trace: Trace) -> dict[str, Any]:
    """Return the JSON object of a whole trace, without the templates of its sentences."""
    return {"schema": SCHEMA, **to_dict(trace)}


def trace_to_dict(trace: Trace) -> dict[str, Any]:
    """Return the JSON object of a whole trace."""
    return add_templates(trace_fields(trace))


def trace_header(trace: Trace) -> dict[str, Any]:
    """Return the JSON object of a trace without steps, outputs and templates."""
    return {k: v for k, v in trace_fields(trace).items() if k not in ("steps", "outputs")}


def dumps(trace: Trace) -> str:
    """Return the trace as one line of strict JSON, its steps in columns."""
    whole = trace_to_dict(trace)
    whole |= {"schema": COLUMNS_SCHEMA, "steps": [to_columns(step) for step in whole["steps"]]}
    return json.dumps(whole, allow_nan=False, separators=(",", ":"))


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace file atomically; a name that ends in .gz is compressed.

    Raises:
        TraceError: the file cannot be written.
    """
    path = Path(path)
    data = dumps(trace).encode()
    if path.suffix == ".gz":
        data = _compress(data)
    # In the same folder, because a rename is atomic only within one file system.
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise TraceError("The trace could not be written: {why}.", why=error.strerror) from None


def _compress(data: bytes) -> bytes:
    # Z_FILTERED skips short matches, which do not pay off in digits: files are 5 % smaller.
    # 16 adds a gzip header, with time 0: equal traces give equal files.
    gzipped = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS, strategy=zlib.Z_FILTERED)
    return gzipped.compress(data) + gzipped.flush()


def load(path: str | Path) -> Trace:
    """Read and validate a trace file.

    Raises:
        TraceError: the file cannot be read or is no valid trace; the message names the place.
    """
    return loads(read_trace_file(path))


def read_trace_file(path: str | Path) -> bytes:
    """Return the content of a file, at most one byte more than a trace may have.

    Raises:
        TraceError: the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(SETTINGS.max_trace_bytes + 1)
    except OSError as error:
        raise TraceError("The trace file cannot be read: {why}.", why=error.strerror) from None


def loads(data: bytes | str) -> Trace:
    """Read and validate a trace from JSON text or bytes, optionally gzipped.

    Raises:
        TraceError: it is no valid trace; the message names the place.
    """
    # Lone surrogates pass here, so that the UTF-8 check reports them as a TraceError.
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return trace_from_dict(checks.read_json_strict(raw, SETTINGS.max_trace_bytes))


def trace_from_dict(data: JsonValue) -> Trace:
    """Make a Trace from parsed JSON.

    Raises:
        TraceError: a field or step is invalid; the message names it.
    """
    if not isinstance(data, dict):
        raise TraceError("A trace is a JSON object; this is something else.")
    version = data.get("schema")
    if version not in (SCHEMA, COLUMNS_SCHEMA):
        shown = "none" if version is None else repr(str(version)[:40])
        reads = join_words([repr(SCHEMA), repr(COLUMNS_SCHEMA)])
        raise TraceError(
            "This trace has schema {schema}; this program reads {reads}.", schema=shown, reads=reads
        )
    # Before anything else: converting too many steps would cost the time that the limit saves.
    checks.check_step_count(data.get("steps"))
    fields = {name: value for name, value in restore_templates(data).items() if name != "schema"}
    if version == COLUMNS_SCHEMA and isinstance(steps := fields.get("steps"), list):
        places = ((f"trace.steps[{i}]", step) for i, step in enumerate(steps))
        fields["steps"] = [to_rows(step, Step, where) for where, step in places]
    trace = read_value(fields, Trace, "trace")
    checks.check_trace(trace)
    return trace


def step_from_dict(data: JsonValue) -> Step:
    """Make a Step from parsed JSON.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    return read_value(data, Step, "step")


@cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


def read_value(value: JsonValue, hint: object, where: str) -> Any:
    """Convert a JSON value to a type made of dataclasses, tuples, dicts, unions and scalars."""
    return _reader_of(hint)(value, where)


# A trace has many thousands of values of few types.
@cache
def _reader_of(hint: object) -> _Reader:
    """Return the function that reads a value of a type, given the value and its place."""
    kind, meaning = split_annotation(hint)
    if kind is Any:
        return lambda value, _: value
    if meaning == LOGPROB:
        return lambda value, where: -math.inf if value is None else _read_scalar(kind, value, where)
    if is_record_type(kind):
        return partial(_read_record, kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _reader_of_union(args)
    if origin is tuple and args[-1] is Ellipsis:
        return partial(_read_list, _reader_of(args[0]))
    if origin is tuple:
        return partial(_read_tuple, [_reader_of(arg) for arg in args])
    if origin is dict:
        return partial(_read_mapping, args[0], _reader_of(args[1]))
    return partial(_read_scalar, kind)


def _reader_of_union(args: tuple[object, ...]) -> _Reader:
    options = [arg for arg in args if arg is not type(None)]
    # The only union of several records is that of the details; every other one is "X or None".
    of_details = set(options) == set(_DETAIL_CLASSES)
    read = _read_detail if of_details else _reader_of(options[0])
    return partial(_read_union, read, type(None) in args)


@cache
def _field_readers(cls: type[DataclassInstance]) -> tuple[dict[str, _Reader], list[str]]:
    """Return the reader of every field of a record, and the fields that it must have."""
    fields, hints = dataclasses.fields(cls), field_types(cls)
    # Fields with a default may be missing: files older than the field stay readable.
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    return {f.name: _reader_of(hints[f.name]) for f in fields}, required


def _read_record(cls: type[DataclassInstance], value: JsonValue, where: str) -> Any:
    if not isinstance(value, dict):
        raise TraceError("{where} must be an object.", where=where)
    readers, required = _field_readers(cls)
    # "kind" has already selected the class; see _read_detail.
    extra = next((name for name in value if name not in readers and name != "kind"), None)
    if extra is not None:
        raise TraceError(
            "{where} has an unknown field {name}.", where=where, name=repr(str(extra)[:40])
        )
    for name in required:
        if name not in value:
            raise TraceError("{where} lacks the field {name}.", where=where, name=repr(name))
    return cls(**{n: read(value[n], f"{where}.{n}") for n, read in readers.items() if n in value})


def _read_union(read: _Reader, may_be_null: bool, value: JsonValue, where: str) -> Any:
    if value is not None:
        return read(value, where)
    if may_be_null:
        return None
    raise TraceError("{where} must not be null.", where=where)


def _read_detail(value: JsonValue, where: str) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in DETAIL_TYPES:
        raise TraceError(
            "{where} has an unknown kind {kind}.", where=where, kind=repr(str(kind)[:40])
        )
    return _read_record(DETAIL_TYPES[kind], value, where)


def _read_list(read: _Reader, value: JsonValue, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TraceError("{where} must be a list.", where=where)
    return tuple(read(item, f"{where}[{i}]") for i, item in enumerate(value))


def _read_tuple(readers: Sequence[_Reader], value: JsonValue, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TraceError("{where} must be a list.", where=where)
    if len(value) != len(readers):
        raise TraceError("{where} must hold {n} values.", where=where, n=len(readers))
    pairs = zip(value, readers, strict=True)
    return tuple(read(item, f"{where}[{i}]") for i, (item, read) in enumerate(pairs))


def _read_mapping(
    key_kind: type, read: _Reader, value: JsonValue, where: str
) -> dict[object, object]:
    if not isinstance(value, dict):
        raise TraceError("{where} must be an object.", where=where)
    result: dict[object, object] = {}
    for key, item in value.items():
        # int() would also accept signs, underscores and other scripts' digits.
        if key_kind is int and not (key.isascii() and key.isdigit() and len(key) < 10):
            raise TraceError(
                "{where} has a key {key} that is no token id.", where=where, key=repr(key[:40])
            )
        name = key[:40] if key.isprintable() else format_value(key[:40])
        result[key_kind(key)] = read(item, f"{where}[{name}]")
    return result


def _read_scalar(kind: type, value: JsonValue, where: str) -> Any:
    if kind in _MAX_NUMBERS and isinstance(value, (int, float)) and abs(value) > _MAX_NUMBERS[kind]:
        raise TraceError("{where} is a number that is too large.", where=where)
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and not is_unicode(value):
        raise TraceError("{where} has half of a character (a lone surrogate).", where=where)
    # bool is a subclass of int, but true is no whole number in JSON.
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise TraceError(_TYPE_ERRORS[kind], where=where)


_MAX_NUMBERS = {int: 2**63, float: 1e60}
"""Floats reach 1e60: an arrival e / p of a tiny float32 p is huge, a removed score the lowest."""
_TYPE_ERRORS = {
    float: "{where} must be a number.",
    int: "{where} must be a whole number.",
    str: "{where} must be text.",
    bool: "{where} must be true or false.",
}
