"""Named numbers of a step, copied from the device to the host in one transfer."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import torch

Columns = Mapping[str, "torch.Tensor"]
"""Name -> (batch, …) tensor: integers below 2**31, or floats, which are copied as float32."""
RowValues = Mapping[str, tuple[float, ...]]
"""Name -> the numbers of one row, further dimensions flattened; integers stay int."""


def start_transfer(columns: Columns) -> Callable[[], list[dict[str, tuple[float, ...]]]]:
    """Start the copy to the host.

    Args:
        columns: at least one tensor; all have the same batch size.

    Returns:
        A function that waits for the copy and returns one dictionary of numbers per row.
    """
    flat = {n: v.flatten(1) if v.dim() > 1 else v[:, None] for n, v in columns.items()}
    flat = {n: v.float() if v.is_floating_point() else v for n, v in flat.items()}
    far = any(values.device.type != "cpu" for values in flat.values())
    arrive = start_packed_copy(flat) if far else lambda: flat

    def read() -> list[dict[str, tuple[float, ...]]]:
        lists: dict[str, list[list[float]]] = {n: v.tolist() for n, v in arrive().items()}
        rows = zip(*lists.values(), strict=True)
        return [dict(zip(lists, (tuple(of) for of in row), strict=True)) for row in rows]

    return read


def start_packed_copy(columns: Columns) -> Callable[[], dict[str, torch.Tensor]]:
    """Start one packed copy of float32 and integer tensors.

    Args:
        columns: name -> (batch, n) tensors.

    Returns:
        A function that waits for the copy and returns the same tensors on the host.
    """
    whole = {name: not values.is_floating_point() for name, values in columns.items()}
    # Floats travel as bits: in one float32 tensor, ids above 2**24 would be rounded.
    parts = [v.int() if whole[n] else v.view(torch.int32) for n, v in columns.items()]
    ends = list(itertools.accumulate(part.shape[1] for part in parts))
    arrive = _start_host_copy(torch.cat(parts, dim=-1))

    def unpack() -> dict[str, torch.Tensor]:
        packed = arrive()
        places = zip(columns, [0, *ends], ends, strict=False)
        found = {name: packed[:, start:end] for name, start, end in places}
        return {n: v if whole[n] else v.contiguous().view(torch.float32) for n, v in found.items()}

    return unpack


def _start_host_copy(packed: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Start a copy to the host, asynchronously from CUDA.

    Returns:
        A function that waits for the copy and returns it.
    """
    if packed.device.type != "cuda":
        host = packed.cpu()
        return lambda: host
    # Only pinned memory lets the copy overlap with the next forward pass.
    pinned = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
    pinned.copy_(packed, non_blocking=True)
    there = torch.cuda.Event()
    there.record()

    def arrive() -> torch.Tensor:
        there.synchronize()
        return pinned

    return arrive
