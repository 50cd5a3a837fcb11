"""Converts a method's return value to plain ids, or to a sentence about what it is instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from engine.messages import Message

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
    value: Any = returned
    if isinstance(value, dict):  # transformers' ModelOutput is a dict
        if "sequences" not in value:
            keys = ", ".join(sorted(str(key) for key in value)[:8]) or "nothing"
            return _refuse(Message("a dictionary without sequences (it has {keys})", keys=keys))
        others = ", ".join(str(key) for key in value if key != "sequences")
        notes += (
            [Message("The method also returned {others}, which is not shown.", others=others)]
            if others
            else []
        )
        value = value["sequences"]
    elif hasattr(value, "sequences"):
        value = value.sequences
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(v, str) for v in texts):
        return _refuse(
            Message("text in place of ids ({texts})", texts=repr("; ".join(texts)[:200]))
        )
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
            return _refuse(
                Message("a tensor of {dtype}", dtype=str(value.dtype).removeprefix("torch."))
            )
        if value.numel() > MAX_IDS:
            return _refuse(
                Message(
                    "{ids} ids, more than {most}",
                    ids=f"{value.numel():,}",
                    most=f"{MAX_IDS:,}",
                )
            )
        value = value.tolist()
    # Not isinstance: a bool is an int, too.
    if isinstance(value, list) and value and all(type(i) is int for i in value):
        value = [value]
    if not _is_id_rows(value):
        return _refuse(_describe_type(returned))
    return _refuse_bad_ids(value, vocab_size) or {
        "sequences": [list(row) for row in value],
        "notes": notes,
    }


def _refuse_bad_ids(rows: Sequence[Sequence[int]], vocab_size: int) -> dict[str, Any] | None:
    if sum(len(row) for row in rows) > MAX_IDS:
        return _refuse(Message("more than {most} ids", most=f"{MAX_IDS:,}"))
    beyond = next((i for row in rows for i in row if not 0 <= i < vocab_size), None)
    if beyond is None:
        return None
    return _refuse(
        Message(
            "the id {beyond}, and the model's go from 0 to {last}",
            beyond=beyond,
            last=vocab_size - 1,
        )
    )


def _is_id_rows(value: object) -> TypeGuard[Sequence[Sequence[int]]]:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(
            isinstance(row, (list, tuple)) and all(type(i) is int for i in row) for row in value
        )
    )


def _describe_type(value: object) -> str:
    if value is None:
        return "nothing"
    if hasattr(value, "__next__"):
        return "a generator"
    kind = type(value).__name__
    return f"a {kind}"


def _refuse(what: str) -> dict[str, Any]:
    return {
        "refused": Message(
            "The method returned {what}; it must return token ids, one row for each sequence.",
            what=what,
        )
    }
