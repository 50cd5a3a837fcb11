"""Short runs of every strategy with the settings of its first preset, and what they come to."""

from __future__ import annotations

from typing import Any

from engine import DecodeRequest, decode
from engine.strategies import STRATEGIES
from engine.trace.events import Failed, Finished

TOKENS = 8
IN_PROCESS = [name for name, strategy in STRATEGIES.items() if strategy.loop is not None]
"""Strategies whose loops run here; a custom method's process keeps a spare with a folder for a while."""
_CHECKS = ("plain_run", "distribution_runs")
"""What only measures after a run."""

Tokens = tuple[tuple[int, ...], ...]


def short_request(strategy: str, seed: int, tokens: int = TOKENS, **more: Any) -> DecodeRequest:
    """Return a short run of a strategy's first preset.

    Args:
        strategy: a name of STRATEGIES.
        seed: of the run.
        tokens: most new tokens.
        more: parameters besides those of the preset.
    """
    preset = STRATEGIES[strategy].presets[0]
    params = {name: value for name, value in preset.params.items() if name not in _CHECKS}
    params |= {"max_new_tokens": tokens, **more}
    return DecodeRequest(strategy, preset.model, preset.prompt, params=params, seed=seed)


def tokens_of(request: DecodeRequest) -> Tokens:
    """Run a request to its end and return the tokens of its texts.

    Raises:
        EngineError: what it failed with.
    """
    *_, last = decode(request)
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return tuple(output.token_ids for output in last.trace.outputs)


class Alone:
    """What requests come to where nothing else goes on; each is run once."""

    def __init__(self) -> None:
        self._known: dict[str, Tokens] = {}

    def of(self, request: DecodeRequest) -> Tokens:
        """Return the tokens of a request; it must not be asked for while others run."""
        key = f"{request.strategy} {request.seed} {sorted(request.params.items())!r}"
        if key not in self._known:
            self._known[key] = tokens_of(request)
        return self._known[key]
