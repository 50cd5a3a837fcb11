"""The API for programs: one Gradio endpoint per strategy, which returns a result or an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from typing import Any

from engine import DecodeRequest
from engine.declare.weights import weights_params
from engine.errors import Cancelled, ParameterError
from engine.run.decoding import trace_of
from engine.serving import decode
from engine.serving.prompt_batch import decode_prompts
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.trace.json_io import to_dict
from engine.trace.records import Trace
from playground.forms import visitor_media
from playground.jobs.page_events import RUN_QUEUE_ID
from playground.jobs.registry import JOBS, JobKind, PageJob
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.server.api_schema import RESULT_SCHEMA, endpoint_description, endpoint_inputs
from playground.shell.endpoints import add_typed_endpoint
from playground.shell.guard import guard_handler
from playground.shell.visitors import set_current_visitor

_PROMPT_FORMS = ({"messages", "template"}, {"prompt"})
"""A prompt object has the fields of one of these sets."""
_POLL_S = 0.25
"""Seconds between checks that the caller is still connected."""
_CALL = JobKind("api", reconnects=False, stopped="Stopped: nobody waits for it any more.")


def decode_to_end(
    strategy: str,
    prompt: Any,
    model: Any,
    params: Any,
    seed: Any,
    assistant: Any = None,
    **others: Any,
) -> dict[str, Any]:
    """Decode to the end and return the result as JSON values.

    Args:
        strategy: its name.
        prompt: text; a list of texts, each a run; or an object with ``prompt``, or with
            ``messages`` and ``template``. The object may also hold ``image`` or ``audio`` (a file in
            base64, or ``example:NAME``) and ``speech``, options of a speech model.
        model: a model's name.
        params: parameters of the strategy and of ``declare.weights``, or None.
        seed: the seed of the run.
        assistant: the draft model's name, None for the strategy's default.
        others: the fields of a prompt object, in place of it; None for those that are not given.

    Returns:
        ``outputs`` (each with text, token_ids and finish_reason), ``metrics`` and ``notes``; for a
            list of prompts ``runs``, each with these.

    Raises:
        EngineError: a value is not valid, or the run failed.
        StoppedError: the caller disconnected for longer than ``unheard_s``.
    """
    set_current_visitor()
    settings, weights = split_params(params if params is not None else {})
    request = DecodeRequest(
        strategy, model, params=settings, seed=seed, assistant=assistant, weights=weights
    )
    given = {name: value for name, value in others.items() if value is not None}
    several = prompt if isinstance(prompt, list) and not given else None
    read = _prompt_fields(prompt, given) if several is None else {}
    # Gradio continues an event after its caller has disconnected.
    with JOBS.run(_CALL) as job:
        if several is None:
            return _to_result(_decode_one(dataclasses.replace(request, **read), job))
        traces = decode_prompts(request, several, job.cancelled.is_set)
        return {"runs": [_to_result(trace) for trace in traces]}


def _decode_one(request: DecodeRequest, job: PageJob) -> Trace:
    last = None
    with closing(decode(request)) as run:
        for events in run.batches(0.0, _POLL_S):
            last = events[-1] if events else last
            if job.cancelled.is_set():
                raise Cancelled
    return trace_of(last)


def _to_result(trace: Trace) -> dict[str, Any]:
    return {name: to_dict(getattr(trace, name)) for name in ("outputs", "metrics", "notes")}


def _prompt_fields(prompt: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the prompt fields of a request: text, messages, media and speech options.

    Args:
        prompt: text, or an object with the other fields.
        given: the other fields, as far as a call has them.

    Raises:
        ParameterError: the object has other fields, or an image or audio file cannot be read.
    """
    if not given and not isinstance(prompt, dict):
        return {"prompt": prompt}
    whole = {**(prompt if isinstance(prompt, dict) else {"prompt": prompt}), **given}
    media = visitor_media.media_from_call(whole)
    named = {name: value for name, value in whole.items() if name not in visitor_media.KINDS}
    speech = named.pop("speech", None) if media else None
    # A conversation is given without a prompt, and with an image or audio file it may be empty.
    if named.get("prompt") in ("", None) and "messages" in named:
        named.pop("prompt", None)
    if media and named.get("prompt") == "":
        named["prompt"] = None
    if not (media or "messages" in named) or not any(set(named) <= own for own in _PROMPT_FORMS):
        raise ParameterError(
            "prompt",
            named,
            "it must be text, a list of texts, or an object of messages and template or of prompt, with image or audio",
        )
    return {**named, **media, **({} if speech is None else {"speech": speech})}


def split_params(params: Any) -> tuple[Any, dict[str, Any]]:
    """Split ``params`` into decoding parameters and weight parameters (precision, placement)."""
    # The engine rejects anything that is not an object, in its own words.
    if not isinstance(params, dict):
        return params, {}
    kinds = weights_params(assistant=True)
    weights = {name: value for name, value in params.items() if name in kinds}
    return {name: value for name, value in params.items() if name not in kinds}, weights


def _make_endpoint(strategy: Strategy) -> Callable[..., dict[str, Any]]:
    """Return the function of a strategy's endpoint; programs read its docstring."""

    def call(
        prompt: str,
        model: str = strategy.default_model,
        params: dict[str, Any] | None = None,
        seed: int = 0,
        assistant: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        template: dict[str, Any] | None = None,
        image: str | None = None,
        audio: str | None = None,
        speech: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        return decode_to_end(
            strategy.name,
            prompt,
            model,
            params,
            seed,
            assistant,
            messages=messages,
            template=template,
            image=image,
            audio=audio,
            speech=speech,
        )

    call.__name__ = strategy.name
    call.__doc__ = endpoint_description(strategy)
    return call


def add_endpoints() -> None:
    """Register ``/<strategy>`` for every strategy."""
    for strategy in STRATEGIES.values():
        add_typed_endpoint(
            guard_handler(on_gpu(_make_endpoint(strategy))),
            strategy.name,
            endpoint_inputs(strategy),
            RESULT_SCHEMA,
            **queue_options(RUN_QUEUE_ID),
        )
