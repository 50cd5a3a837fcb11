"""Makes a loop (a generator of Steps) a ``custom_generate`` callable for transformers' generate()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.trace.records import Step


def as_custom_generate(
    loop: Callable[..., Any], on_step: Callable[[Step], None], **extra: Any
) -> Callable[..., Any]:
    """Return a callable for ``model.generate(..., custom_generate=...)``.

    generate() prepares inputs, caches, processors and stopping criteria; the callable drains the
    loop, hands every step to ``on_step`` and returns what the loop returned.

    Args:
        loop: generator of Steps over (model, input_ids, logits_processor, stopping_criteria,
            generation_config, **extra, **model_kwargs).
        on_step: called with each step as it is decided; the last comes again, under the same index,
            where something was measured beside it.
        extra: keyword arguments of the loop beyond generate()'s own (recorder, generator, draft).
    """

    def custom_generate(
        model: Any,
        input_ids: Any,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **model_kwargs: Any,
    ) -> Any:
        steps = loop(
            model,
            input_ids,
            logits_processor,
            stopping_criteria,
            generation_config,
            **extra,
            **model_kwargs,
        )
        try:
            while True:
                on_step(next(steps))
        except StopIteration as stop:
            return stop.value
        finally:
            steps.close()

    return custom_generate
