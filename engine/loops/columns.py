"""Numbers of a step under their names, brought from the device to the host in one copy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch

Columns = Mapping[str, torch.Tensor]
"""Name -> (batch, …) numbers: whole ones below 2**31, or others, of which float32 keeps what it can."""
Numbers = Mapping[str, tuple[float, ...]]
"""Name -> the numbers of one row, what had more dimensions laid out flat; whole ones stay int."""


def to_host(columns: Columns) -> list[dict[str, tuple[float, ...]]]:
    """Return the numbers of every row of the batch; the copy waits for the device once.

    Args:
        columns: all with the same batch, at least one of them.
    """
    flat = {n: v.flatten(1) if v.dim() > 1 else v[:, None] for n, v in columns.items()}
    flat = {n: v.float() if v.is_floating_point() else v for n, v in flat.items()}
    if any(values.device.type != "cpu" for values in flat.values()):
        flat = through_one(flat)
    lists = [values.tolist() for values in flat.values()]
    return [dict(zip(flat, map(tuple, row), strict=True)) for row in zip(*lists, strict=True)]


def through_one(columns: Columns) -> dict[str, torch.Tensor]:
    """Return float32 and whole numbers as they were, on the host, after one copy of all of them.

    Args:
        columns: name -> (batch, n) numbers.
    """
    whole = {name: not values.is_floating_point() for name, values in columns.items()}
    # A float32 travels as its bits, so that an id beside it is exact whatever its size.
    parts = [v.int() if whole[n] else v.view(torch.int32) for n, v in columns.items()]
    ends = list(itertools.accumulate(part.shape[1] for part in parts))
    packed = torch.cat(parts, dim=-1).cpu()
    places = zip(columns, [0, *ends], ends, strict=False)
    found = {name: packed[:, start:end] for name, start, end in places}
    return {n: v if whole[n] else v.contiguous().view(torch.float32) for n, v in found.items()}
