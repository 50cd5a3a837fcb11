"""Numbers of a step under their names, brought from the device to the host in one copy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import torch

Columns = Mapping[str, "torch.Tensor"]
"""Name -> (batch, …) numbers: whole ones below 2**31, or others, of which float32 keeps what it can."""
Numbers = Mapping[str, tuple[float, ...]]
"""Name -> the numbers of one row, what had more dimensions laid out flat; whole ones stay int."""


def to_host(columns: Columns) -> list[dict[str, tuple[float, ...]]]:
    """Return the numbers of every row of the batch; the copy waits for the device once.

    Args:
        columns: all with the same batch, at least one of them.
    """
    return sent(columns)()


def sent(columns: Columns) -> Callable[[], list[dict[str, tuple[float, ...]]]]:
    """Start to bring numbers to the host; what is returned gives what ``to_host`` does once they are there."""
    flat = {n: v.flatten(1) if v.dim() > 1 else v[:, None] for n, v in columns.items()}
    flat = {n: v.float() if v.is_floating_point() else v for n, v in flat.items()}
    far = any(values.device.type != "cpu" for values in flat.values())
    arrive = through_one(flat) if far else lambda: flat

    def read() -> list[dict[str, tuple[float, ...]]]:
        lists = {name: values.tolist() for name, values in arrive().items()}
        rows = zip(*lists.values(), strict=True)
        return [dict(zip(lists, map(tuple, row), strict=True)) for row in rows]

    return read


def through_one(columns: Columns) -> Callable[[], dict[str, torch.Tensor]]:
    """Start one copy of float32 and whole numbers; what is returned gives them as they were, on the host.

    Args:
        columns: name -> (batch, n) numbers.
    """
    whole = {name: not values.is_floating_point() for name, values in columns.items()}
    # A float32 travels as its bits, so that an id beside it is exact whatever its size.
    parts = [v.int() if whole[n] else v.view(torch.int32) for n, v in columns.items()]
    ends = list(itertools.accumulate(part.shape[1] for part in parts))
    arrive = _copied(torch.cat(parts, dim=-1))

    def unpack() -> dict[str, torch.Tensor]:
        packed = arrive()
        places = zip(columns, [0, *ends], ends, strict=False)
        found = {name: packed[:, start:end] for name, start, end in places}
        return {n: v if whole[n] else v.contiguous().view(torch.float32) for n, v in found.items()}

    return unpack


def _copied(packed: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Start a copy to the host; from CUDA nobody waits for it before it is asked for."""
    if packed.device.type != "cuda":
        host = packed.cpu()
        return lambda: host
    pinned = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
    pinned.copy_(packed, non_blocking=True)
    there = torch.cuda.Event()
    there.record()

    def arrive() -> torch.Tensor:
        there.synchronize()
        return pinned

    return arrive
