"""Objects of generate() that a Python caller gives a run: logits processors, criteria and a streamer.

They stay in this process. A trace names those that choose tokens, so no code can be exported from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import ParameterError
from engine.messages import Message
from engine.strategies.base import Strategy
from engine.trace.records import Step

if TYPE_CHECKING:
    from engine.run.request import DecodeRequest

_LISTS = ("logits_processor", "stopping_criteria")
_STREAMER_METHODS = ("put", "end")


def has_caller_objects(request: DecodeRequest) -> bool:
    """Return whether a request has any such object."""
    return bool(describe_caller_objects(request)) or request.streamer is not None


def describe_caller_objects(request: DecodeRequest) -> dict[str, str]:
    """Return the names of the objects that choose tokens, as the settings of a trace have callables."""
    found = {name: tuple(getattr(request, name)) for name in _LISTS}
    return {
        name: f"<callable {', '.join(getattr(one, '__name__', type(one).__name__) for one in objects)}>"
        for name, objects in found.items()
        if objects
    }


def check_caller_objects(request: DecodeRequest, strategy: Strategy, sequences: int) -> None:
    """Check a request's objects as far as their calls can be known.

    Args:
        request: the request.
        strategy: its strategy.
        sequences: texts that it asks for.

    Raises:
        ParameterError: an object has another form, or the strategy cannot use it.
    """
    for name in _LISTS:
        functions = getattr(request, name)
        if not isinstance(functions, Sequence) or not all(map(callable, functions)):
            raise ParameterError(name, functions, "it must be a list of objects that can be called")
    streamer = request.streamer
    if streamer is not None and not all(hasattr(streamer, name) for name in _STREAMER_METHODS):
        raise ParameterError("streamer", streamer, "it must have the methods put and end")
    if strategy.loop is None:
        for name in describe_caller_objects(request):
            allowed = Message("a custom method takes its own arguments only")
            raise ParameterError(name, getattr(request, name), allowed)
    if streamer is not None and (strategy.group == "beams" or sequences != 1):
        raise ParameterError(
            "streamer", streamer, "it needs one sequence, in a strategy that never revises its text"
        )


class StreamerFeed:
    """Gives a streamer the tokens as generate() does: the prompt, then the new ones.

    Args:
        streamer: an object with ``put`` and ``end``; None for nothing to feed.
        prompt_ids: ids of the prompt.
    """

    def __init__(self, streamer: Any, prompt_ids: Sequence[int]) -> None:
        self.streamer, self._count = streamer, 0
        if streamer is not None:
            # (1, length), the shape in which generate() gives the prompt; new tokens come as (1,).
            streamer.put(torch.tensor([prompt_ids]))

    def put(self, step: Step) -> None:
        """Give it the tokens of a step."""
        # The last step may come twice, the second time with an optional measurement.
        if self.streamer is None or step.keep < self._count:
            return
        self._count += len(step.emit)
        for token_id in step.emit:
            self.streamer.put(torch.tensor([token_id]))

    def end(self) -> None:
        """Tell it that the text has ended."""
        if self.streamer is not None:
            self.streamer.end()
