"""Tracks which token ids each row of a cache contains, while a method rearranges the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_NOTE = "_ids_of_rows"
"""Attribute on the cache object, so that a copy of the cache has it too."""


def held_rows(cache: Any) -> list[list[int]]:
    """Return the ids of every row as set by ``note_rows``, more than a cropped cache contains."""
    return getattr(cache, _NOTE, [])


def note_rows(cache: Any, rows: list[list[int]]) -> None:
    """Set the ids of every row of a cache; None is ignored."""
    if cache is not None:
        setattr(cache, _NOTE, rows)


@contextmanager
def following_rows() -> Iterator[None]:
    """Keep the ids in step with batch_select_indices, reorder_cache and batch_repeat_interleave.

    Patches transformers' cache classes until the block ends.
    """
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
    """Return the selected rows, none if an index is not a valid row number."""
    listed = indices.tolist() if hasattr(indices, "tolist") else list(indices)
    known = all(isinstance(i, int) and not isinstance(i, bool) and i < len(rows) for i in listed)
    return [rows[i] for i in listed] if known else []


def _repeated(rows: list[list[int]], times: int) -> list[list[int]]:
    return [row for row in rows for _ in range(times)]
