"""Numbers of a step under their names, brought from the device to the host in one copy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch

Columns = Mapping[str, "torch.Tensor"]
"""Name -> (batch, …) numbers; ids are exact up to 2**24, as the copy is in float32."""
Numbers = Mapping[str, tuple[float, ...]]
"""Name -> the numbers of one row, what had more dimensions laid out flat."""


def to_host(columns: Columns) -> list[dict[str, tuple[float, ...]]]:
    """Return the numbers of every row of the batch; the copy waits for the device once.

    Args:
        columns: all with the same batch, at least one of them.
    """
    parts = [
        (values if values.dim() > 1 else values[:, None]).to(torch.float32).flatten(1)
        for values in columns.values()
    ]
    ends = list(itertools.accumulate(part.shape[1] for part in parts))
    places = list(zip(columns, [0, *ends[:-1]], ends, strict=True))
    rows = torch.cat(parts, dim=-1).cpu().tolist()
    return [{name: tuple(row[start:end]) for name, start, end in places} for row in rows]
