"""Lets a long forward pass give way between two of its layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

import torch

_CHECK_S = 0.05
"""Least seconds between two questions whether somebody waits: a small model has thousands of layers a second."""
_GIVE_WAY: ContextVar[Callable[[], None] | None] = ContextVar("give_way", default=None)


@contextmanager
def pause_between_layers(
    *models: object, give_way: Callable[[], None] | None = None
) -> Iterator[None]:
    """Give way between the layers of every pass made for the surrounding work until the block ends.

    The work may make passes in another thread, if that has a copy of this thread's context.

    Only on the processor: a pass on a GPU is short, and a captured graph must not be interrupted.

    Args:
        models: transformers models, or views of them with modules of their own.
        give_way: lets others compute if they are due; None takes that of the surrounding block, and
            does nothing outside of one.
    """
    give_way = give_way or _GIVE_WAY.get()
    if give_way is None:
        yield
        return
    checked_at = time.perf_counter()

    def check(*_: object) -> None:
        nonlocal checked_at
        # The modules are shared: a pass for other work asks for itself.
        if _GIVE_WAY.get() == give_way and time.perf_counter() - checked_at >= _CHECK_S:
            give_way()
            checked_at = time.perf_counter()

    with ExitStack() as stack:
        # A set: target and draft may be one model, which needs one hook for each layer.
        for layer in {layer for model in models for layer in _list_layers(model)}:
            stack.callback(layer.register_forward_pre_hook(check).remove)
        token = _GIVE_WAY.set(give_way)
        stack.callback(_GIVE_WAY.reset, token)
        yield


def _list_layers(model: object) -> Iterator[torch.nn.Module]:
    """Yield the members of every list of modules, such as the layers of encoder and decoder."""
    if not isinstance(model, torch.nn.Module):
        return
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList):
            yield from (layer for layer in module if _is_on_processor(layer))


def _is_on_processor(layer: torch.nn.Module) -> bool:
    # A GPU computes behind the Python code, so waiting here would not stop it.
    weight = next(layer.parameters(), None)
    return weight is None or weight.device.type == "cpu"
