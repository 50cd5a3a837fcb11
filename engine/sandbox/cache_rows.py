"""Tracks which token ids each row of a cache contains, while a method rearranges the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import transformers

_ATTRIBUTE = "_ids_of_rows"
"""Attribute on the cache object, so that a copy of the cache has it too."""
RowChange: TypeAlias = Callable[[list[list[int]], Any], list[list[int]]]
"""(rows, numbers of the rows that stay, or how often each is repeated) -> rows."""


def get_row_ids(cache: transformers.Cache | None) -> list[list[int]]:
    """Return the ids of every row as set by ``set_row_ids``, more than a cropped cache contains."""
    return getattr(cache, _ATTRIBUTE, [])


def set_row_ids(cache: transformers.Cache | None, rows: list[list[int]]) -> None:
    """Set the ids of every row of a cache; None is ignored."""
    if cache is not None:
        setattr(cache, _ATTRIBUTE, rows)


@contextmanager
def track_cache_rows() -> Iterator[None]:
    """Keep the ids in step with batch_select_indices, reorder_cache and batch_repeat_interleave.

    Patches transformers' cache classes until the block ends.
    """
    from transformers import Cache, EncoderDecoderCache

    changes: dict[str, RowChange] = {
        "batch_select_indices": _select_rows,
        "reorder_cache": _select_rows,
        "batch_repeat_interleave": _repeat_rows,
    }
    originals = [
        # vars, not getattr: each class gets its own method back, not one that it inherits.
        (kind, name, vars(kind)[name])
        for kind in (Cache, EncoderDecoderCache)
        for name in changes
    ]
    for kind, name, original in originals:
        setattr(kind, name, _wrap_cache_method(original, changes[name]))
    try:
        yield
    finally:
        for kind, name, original in originals:
            setattr(kind, name, original)


def _wrap_cache_method(
    original: Callable[[transformers.Cache, object], object], change: RowChange
) -> Any:
    def changed(cache: transformers.Cache, how: object) -> Any:
        result = original(cache, how)
        set_row_ids(cache, change(get_row_ids(cache), how))
        return result

    return changed


def _select_rows(rows: list[list[int]], indices: Any) -> list[list[int]]:
    """Return the selected rows, none if an index is not a valid row number."""
    listed = indices.tolist() if hasattr(indices, "tolist") else list(indices)
    known = all(isinstance(i, int) and not isinstance(i, bool) and i < len(rows) for i in listed)
    return [rows[i] for i in listed] if known else []


def _repeat_rows(rows: list[list[int]], times: int) -> list[list[int]]:
    return [row for row in rows for _ in range(times)]
