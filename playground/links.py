"""The address bar: strategy, model, prompt, parameters and seed as query parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from engine.declare.params import params_of
from engine.errors import ParameterError
from engine.run.request import MAX_SEED, DecodeRequest
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from playground.form import strategy_of

_MAX_PARAMS_CHARS = 8000


def link_of(request: DecodeRequest) -> str:
    """Return the query string that makes the same run again."""
    fields = {
        "strategy": request.strategy,
        "model": request.model or "",
        "assistant": request.assistant or "",
        "prompt": request.prompt or "",
        "params": json.dumps(dict(request.params), separators=(",", ":")),
        "seed": request.seed,
    }
    return "?" + urlencode({name: value for name, value in fields.items() if value != ""})


def request_of(query: Mapping[str, str]) -> DecodeRequest:
    """Read a link back.

    Raises:
        ParameterError: it names no strategy of ours, or something in it cannot be read.
    """
    strategy = strategy_of(query).name
    return DecodeRequest(
        strategy=strategy,
        model=query.get("model") or None,
        prompt=query.get("prompt", "")[: SETTINGS.max_prompt_chars],
        params=_params(query.get("params", "{}"), strategy),
        seed=_seed(query.get("seed", "0")),
        assistant=query.get("assistant") or None,
    )


def _params(text: str, strategy: str) -> dict[str, Any]:
    try:
        params = json.loads(text[:_MAX_PARAMS_CHARS])
    except ValueError:
        params = None
    if not isinstance(params, dict):
        raise ParameterError("params", text[:40], "the link's params must be a JSON object")
    known = params_of(STRATEGIES[strategy].config)
    return {name: known[name].check(name, value) for name, value in params.items() if name in known}


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > MAX_SEED:
        raise ParameterError("seed", text[:40], f"it must be a whole number from 0 to {MAX_SEED}")
    return int(text)
