"""Which ids every row of a cache holds, however a method picks, repeats or rearranges its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_NOTE = "_ids_of_rows"
"""Stands on the cache itself, so that a copy of a cache has it, too."""


def held_rows(cache: Any) -> list[list[int]]:
    """Return the ids of every row as ``note_rows`` noted them; more than are held where a cache was cropped."""
    return getattr(cache, _NOTE, [])


def note_rows(cache: Any, rows: list[list[int]]) -> None:
    """Note the ids that every row of a cache holds."""
    if cache is not None:
        setattr(cache, _NOTE, rows)


@contextmanager
def following_rows() -> Iterator[None]:
    """Let the notes of all caches follow their rows until the block ends."""
    from transformers import Cache, EncoderDecoderCache

    changes: dict[str, Callable[[list[list[int]], Any], list[list[int]]]] = {
        "batch_select_indices": _picked,
        "reorder_cache": _picked,
        "batch_repeat_interleave": _repeated,
    }
    originals = [
        (kind, name, vars(kind)[name]) for kind in (Cache, EncoderDecoderCache) for name in changes
    ]
    for kind, name, original in originals:
        setattr(kind, name, _with_note(original, changes[name]))
    try:
        yield
    finally:
        for kind, name, original in originals:
            setattr(kind, name, original)


def _with_note(original: Any, change: Callable[[list[list[int]], Any], list[list[int]]]) -> Any:
    def changed(cache: Any, how: Any) -> Any:
        result = original(cache, how)
        note_rows(cache, change(held_rows(cache), how))
        return result

    return changed


def _picked(rows: list[list[int]], indices: Any) -> list[list[int]]:
    """Return the rows that were picked; none where that cannot be told."""
    listed = indices.tolist() if hasattr(indices, "tolist") else list(indices)
    known = all(isinstance(i, int) and not isinstance(i, bool) and i < len(rows) for i in listed)
    return [rows[i] for i in listed] if known else []


def _repeated(rows: list[list[int]], times: int) -> list[list[int]]:
    return [row for row in rows for _ in range(times)]
