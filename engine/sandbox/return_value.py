"""Converts a method's return value to plain ids, or to a sentence about what it is instead."""

from __future__ import annotations

from typing import Any

MAX_IDS = 200_000
"""Most ids of all sequences together."""


def read_return_value(returned: Any, vocab_size: int) -> dict[str, Any]:
    """Return ``sequences`` and ``notes`` of a return value, or ``refused`` with a sentence.

    The sequences are rows of ids, prompt included.

    Args:
        returned: the return value of ``generate``.
        vocab_size: vocabulary size of the model.
    """
    import torch

    notes = []
    value = returned
    if isinstance(value, dict):  # transformers' ModelOutput is a dict
        if "sequences" not in value:
            keys = ", ".join(sorted(str(key) for key in value)[:8]) or "nothing"
            return _refuse(f"a dictionary without sequences (it has {keys})")
        others = ", ".join(str(key) for key in value if key != "sequences")
        notes += [f"The method also returned {others}, which is not shown."] if others else []
        value = value["sequences"]
    elif hasattr(value, "sequences"):
        value = value.sequences
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(v, str) for v in texts):
        return _refuse(f"text in place of ids ({'; '.join(texts)[:200]!r})")
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
            return _refuse(f"a tensor of {str(value.dtype).removeprefix('torch.')}")
        if value.numel() > MAX_IDS:
            return _refuse(f"{value.numel():,} ids, more than {MAX_IDS:,}")
        value = value.tolist()
    if isinstance(value, list) and value and all(type(i) is int for i in value):
        value = [value]
    if not _is_id_rows(value):
        return _refuse(_describe_type(returned))
    return _refuse_bad_ids(value, vocab_size) or {
        "sequences": [list(row) for row in value],
        "notes": notes,
    }


def _refuse_bad_ids(rows: Any, vocab_size: int) -> dict[str, Any] | None:
    if sum(len(row) for row in rows) > MAX_IDS:
        return _refuse(f"more than {MAX_IDS:,} ids")
    beyond = next((i for row in rows for i in row if not 0 <= i < vocab_size), None)
    if beyond is None:
        return None
    return _refuse(f"the id {beyond}, and the model's go from 0 to {vocab_size - 1}")


def _is_id_rows(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(
            isinstance(row, (list, tuple)) and all(type(i) is int for i in row) for row in value
        )
    )


def _describe_type(value: Any) -> str:
    if value is None:
        return "nothing"
    if hasattr(value, "__next__"):
        return "a generator"
    kind = type(value).__name__
    return f"a {kind}"


def _refuse(what: str) -> dict[str, Any]:
    return {
        "refused": f"The method returned {what}; it must return token ids, one row for each sequence."
    }
