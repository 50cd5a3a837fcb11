"""Make transformers draw from a given generator, in the current thread only."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch


def use_generator(generator: torch.Generator) -> Any:
    """Return a context in which this thread's draws in generate() use `generator`.

    The draws equal those after ``torch.manual_seed`` with the same seed on the same device.

    Args:
        generator: a generator on the model's device.
    """
    # torch's global generator is shared by all threads; seeding it would change other runs.

    return _generator_mode()(generator)


@lru_cache(maxsize=1)
def _generator_mode() -> type:
    """Return the mode class, defined on first use so that its base is imported late."""
    from torch.overrides import TorchFunctionMode

    draws = (torch.multinomial, torch.Tensor.multinomial)

    class Seeded(TorchFunctionMode):
        def __init__(self, generator: torch.Generator) -> None:
            super().__init__()
            self.generator = generator

        def __torch_function__(
            self, func: Callable[..., Any], types: object, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            named = dict(kwargs or {})
            if func in draws:
                named.setdefault("generator", self.generator)
            elif func is torch.rand_like:
                # torch.rand_like takes no generator.
                like = args[0]
                return torch.rand(
                    like.shape, generator=self.generator, dtype=like.dtype, device=like.device
                )
            return func(*args, **named)

    return Seeded
