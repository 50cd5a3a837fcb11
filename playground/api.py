"""One endpoint per strategy for programs: the run's result, or one sentence."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import Any

import gradio as gr

from engine import DecodeRequest
from engine.declare.weights import weights_params
from engine.errors import ParameterError, StoppedError
from engine.serving import decode
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.trace.events import Failed, Finished
from engine.trace.json_io import trace_to_dict
from playground import media
from playground.guard import guarded
from playground.listening import LISTENERS
from playground.visitors import remember, session
from playground.zerogpu import in_line

_TEXTS = ({"messages", "template"}, {"prompt"})
_BEAT_S = 0.25
"""How soon it is seen that nobody waits."""


def run_once(strategy: str, prompt: Any, model: Any, params: Any, seed: Any) -> dict[str, Any]:
    """Decode to the end, as long as somebody waits for it, and return text, token_ids, finish_reason and metrics.

    In place of a prompt of text there may be an object: of ``prompt``, or of ``messages`` and ``template``, with
    ``image`` or ``audio`` for a model that takes one, each a file in base64 or ``example:`` and a name, and beside it
    ``speech``, what a speech model is told.
    """
    remember()
    params, weights = apart(params if params is not None else {})
    read = _read_by_the_model(prompt)
    run = decode(DecodeRequest(strategy, model, params=params, seed=seed, weights=weights, **read))
    began, own, last = time.monotonic(), session(), None
    with closing(run):
        for events in run.batches(0.0, _BEAT_S):
            last = events[-1] if events else last
            if LISTENERS.alone_s(own, began) > SETTINGS.unheard_s:
                raise StoppedError("Stopped: nobody waits for it any more.")
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    whole = trace_to_dict(last.trace)
    return {"outputs": whole["outputs"], "metrics": whole["metrics"], "notes": whole["notes"]}


def _read_by_the_model(prompt: Any) -> dict[str, Any]:
    """Return the fields of a request that say what the model reads.

    Raises:
        ParameterError: an object names something else, or what a model is to see or hear cannot be read.
    """
    if not isinstance(prompt, dict):
        return {"prompt": prompt}
    given = media.of_call(prompt)
    named = {name: value for name, value in prompt.items() if name not in media.KINDS}
    told = named.pop("speech", None) if given else None
    if given and named.get("prompt") == "":
        named["prompt"] = None
    if not (given or "messages" in named) or not any(set(named) <= own for own in _TEXTS):
        raise ParameterError(
            "prompt",
            named,
            "it must be text, or an object of messages and template or of prompt, with image or audio",
        )
    return {**named, **given, **({} if told is None else {"speech": told})}


def apart(params: Any) -> tuple[Any, dict[str, Any]]:
    """Return parameters of decoding, and how weights are held; what is no object is judged by the engine."""
    if not isinstance(params, dict):
        return params, {}
    kinds = weights_params(assistant=True)
    weights = {name: value for name, value in params.items() if name in kinds}
    return {name: value for name, value in params.items() if name not in kinds}, weights


def add_endpoints(queue: str) -> None:
    """Register ``/<strategy>`` of every strategy, with prompt (or an object), model, params (an object) and seed.

    How the weights are held stands among the params, by the names of ``declare.weights``.
    """
    fields = [gr.JSON(visible=False) for _ in range(4)]
    button, answer = gr.Button(visible=False), gr.JSON(visible=False)
    for name in STRATEGIES:
        button.click(
            guarded(partial(run_once, name)),
            fields,
            answer,
            api_name=name,
            **in_line(queue),
        )
