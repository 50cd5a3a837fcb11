"""The API for programs: one Gradio endpoint per strategy, which returns a result or an error."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

import gradio as gr

from engine import DecodeRequest
from engine.declare.weights import weights_params
from engine.errors import Cancelled, ParameterError
from engine.serving import decode
from engine.strategies import STRATEGIES
from engine.trace.events import Failed, Finished
from engine.trace.json_io import to_dict
from playground.forms import visitor_media
from playground.jobs.page_events import RUN_QUEUE_ID
from playground.jobs.registry import JOBS, JobKind
from playground.jobs.zerogpu import queue_options
from playground.shell.guard import guard_handler
from playground.shell.visitors import set_current_visitor

# A prompt object has the fields of one of these sets.
_PROMPT_FORMS = ({"messages", "template"}, {"prompt"})
_POLL_S = 0.25
"""Seconds between checks that the caller is still connected."""
_CALL = JobKind("api", reconnects=False, stopped="Stopped: nobody waits for it any more.")


def decode_to_end(strategy: str, prompt: Any, model: Any, params: Any, seed: Any) -> dict[str, Any]:
    """Decode to the end and return the result as JSON values.

    Args:
        strategy: its name.
        prompt: text; or an object with ``prompt``, or with ``messages`` and ``template``. The
            object may also hold ``image`` or ``audio`` (a file in base64, or ``example:NAME``) and
            ``speech``, options of a speech model.
        model: a model's name.
        params: parameters of the strategy and of ``declare.weights``, or None.
        seed: the seed of the run.

    Returns:
        ``outputs`` (each with text, token_ids and finish_reason), ``metrics`` and ``notes``.

    Raises:
        EngineError: a value is not valid, or the run failed.
        StoppedError: the caller disconnected for longer than ``unheard_s``.
    """
    set_current_visitor()
    params, weights = split_params(params if params is not None else {})
    read = _prompt_fields(prompt)
    run = decode(DecodeRequest(strategy, model, params=params, seed=seed, weights=weights, **read))
    last = None
    with JOBS.run(_CALL) as job, closing(run):
        for events in run.batches(0.0, _POLL_S):
            last = events[-1] if events else last
            # Gradio continues an event after its caller has disconnected.
            if job.cancelled.is_set():
                raise Cancelled
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return {name: to_dict(getattr(last.trace, name)) for name in ("outputs", "metrics", "notes")}


def _prompt_fields(prompt: Any) -> dict[str, Any]:
    """Return the prompt fields of a request: text, messages, media and speech options.

    Raises:
        ParameterError: the object has other fields, or an image or audio file cannot be read.
    """
    if not isinstance(prompt, dict):
        return {"prompt": prompt}
    given = visitor_media.media_from_call(prompt)
    named = {name: value for name, value in prompt.items() if name not in visitor_media.KINDS}
    told = named.pop("speech", None) if given else None
    # With an image or audio file the prompt may be empty.
    if given and named.get("prompt") == "":
        named["prompt"] = None
    if not (given or "messages" in named) or not any(set(named) <= own for own in _PROMPT_FORMS):
        raise ParameterError(
            "prompt",
            named,
            "it must be text, or an object of messages and template or of prompt, with image or audio",
        )
    return {**named, **given, **({} if told is None else {"speech": told})}


def split_params(params: Any) -> tuple[Any, dict[str, Any]]:
    """Split ``params`` into decoding parameters and weight parameters (precision, placement)."""
    # The engine rejects anything that is not an object, in its own words.
    if not isinstance(params, dict):
        return params, {}
    kinds = weights_params(assistant=True)
    weights = {name: value for name, value in params.items() if name in kinds}
    return {name: value for name, value in params.items() if name not in kinds}, weights


def add_endpoints() -> None:
    """Register ``/<strategy>`` for every strategy; see ``decode_to_end`` for the four inputs."""
    fields = [gr.JSON(visible=False) for _ in range(4)]
    button, answer = gr.Button(visible=False), gr.JSON(visible=False)
    for name in STRATEGIES:
        button.click(
            guard_handler(partial(decode_to_end, name)),
            fields,
            answer,
            api_name=name,
            **queue_options(RUN_QUEUE_ID),
        )
