"""What transformers draws, drawn from one generator: torch's own is shared by all threads and stays as it is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch


def seeded(generator: torch.Generator) -> Any:
    """Return a context in which this thread's draws of generate() come from a generator.

    They are those that follow ``torch.manual_seed`` of the same seed on the same device.

    Args:
        generator: on the model's device.
    """
    return _mode()(generator)


@lru_cache(maxsize=1)
def _mode() -> type:
    """Return the class, made when torch is there."""
    from torch.overrides import TorchFunctionMode

    draws = (torch.multinomial, torch.Tensor.multinomial)

    class Seeded(TorchFunctionMode):
        def __init__(self, generator: torch.Generator) -> None:
            super().__init__()
            self.generator = generator

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            named = dict(kwargs or {})
            if func in draws:
                named.setdefault("generator", self.generator)
            elif func is torch.rand_like:
                # It takes no generator.
                like = args[0]
                return torch.rand(
                    like.shape, generator=self.generator, dtype=like.dtype, device=like.device
                )
            return func(*args, **named)

    return Seeded
