"""Branches: continue a run from one of its steps, with any strategy.

The page sends the exact token ids to continue, so the server needs no record of the parent run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from engine.analysis.fork import BranchPoint, make_branch
from engine.errors import EngineError, ParameterError
from engine.live import check_values, is_on_server
from engine.live.resume import check_known_ids
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.run.preparation import ModelLoader, get_model, parse_model
from engine.run.prompt_request import default_special_tokens
from engine.run.request import DecodeRequest, check_request
from engine.trace.events import Failed, Started
from playground.forms import controls, visitor_media
from playground.forms.form import (
    check_method_is_local,
    form_params,
    form_weights,
    read_assistant,
    read_strategy,
)
from playground.jobs.page_events import connect_jobs
from playground.jobs.progress import with_progress
from playground.jobs.registry import JobKind, PageJob, Payload
from playground.runs.stream import progress_message, refusal_message, stored_state, stream_run
from playground.shell.elements import add_hidden_element, read_page_number
from playground.shell.guard import error_message
from playground.shell.scripts import on_message

_MAX_RUN_ID = 64


class _BranchStart:
    """Follower that records whether a branch has started, or the error that prevented it."""

    def __init__(self) -> None:
        self.run_id = ""
        self.begun = False
        self.error = ""

    def begin(self, run_id: str) -> None:
        """Store the id of the branch's run."""
        self.run_id = run_id

    def observe_events(self, events: list[Any]) -> dict[str, Any]:
        """Look for the start or a refusal; adds nothing to the messages."""
        for event in events:
            self.begun = self.begun or isinstance(event, Started)
            if isinstance(event, Failed) and not self.begun:
                self.error = str(event.error)
        return {}


def build_fork(bus: Any) -> None:
    """Build the hidden element through which the page requests a branch.

    Args:
        bus: the hidden element that carries run messages.
    """
    asking = add_hidden_element(
        "dp-fork-bus", on_message("p.family((data) => trigger('input', data))")
    )
    connect_jobs(FORK, asking, bus=bus)


def run_branch(job: PageJob, payload: Payload) -> Iterator[str | dict[str, Any]]:
    """Decode a branch.

    Args:
        job: the job that decodes it.
        payload: what the page sent; see ``read_request``.

    Yields:
        Messages of its run, and one answer for the page: the id of the ``run``, or the ``error``
        that prevented it.

    Raises:
        EngineError: The branch cannot start.
    """
    start = _BranchStart()
    answered = refused = False
    key = read_strategy(payload).name
    request = yield from _read_request_with_progress(job, payload, key)
    for text in stream_run(job, request, follow=start):
        # A refusal at once is shown next to the branch's form; one after a wait, where the page waits.
        refused = refused or bool(start.error and not answered)
        if not refused:
            yield text
        if not answered:
            yield {"error": start.error} if refused else {"run": start.run_id}
        answered = True


def _answer_fields(payload: Payload) -> dict[str, Any]:
    """Return the page's ``number`` of a request, 0 if it is not valid; the answers repeat it."""
    return {"number": read_page_number(payload.get("number"))}


FORK = JobKind(
    "fork",
    run_branch,
    about=_answer_fields,
    failure=lambda error: {"error": error_message(error)},
    unknown=stored_state,
)


def _read_request_with_progress(
    job: PageJob, payload: Payload, key: str
) -> Generator[str, None, DecodeRequest]:
    """Read the request and yield progress while its model loads; Stop works during the load."""
    has_reported = False
    reading = with_progress(job, lambda tell, left: read_request(payload, ModelLoader(left, tell)))
    while True:
        try:
            news = next(reading)
        except StopIteration as done:
            return done.value
        except EngineError as error:
            if has_reported:
                yield refusal_message(key, error, job.id)
            raise
        has_reported = True
        yield progress_message(job.id, key, news)


def read_request(
    payload: Mapping[str, Any], get: Callable[..., LoadedModel] = get_model
) -> DecodeRequest:
    """Read the request of a branch.

    Args:
        payload: ``prompt_ids``, ``kept_ids``, ``step``, ``run_id``, ``end_ids``, ``earlier`` and ``pieces`` of the
            parent (``linked`` ids need no pieces); ``token_id`` or ``text``; ``strategy``,
            ``model``, ``assistant``, ``params`` and ``seed`` of the branch; ``image`` and ``audio``
            of the parent; ``chat``, whether the parent answers messages. Of a parent that a server
            decoded also ``merged``, whether the server joined kept tokens, and ``parent_model``.
        get: returns the model from a source.

    Raises:
        EngineError: a value is not valid, or the model's tokens differ from the parent's.
    """
    strategy = read_strategy(payload)
    place = _read_branch_point(payload)
    text = payload.get("text")
    if text is None and payload.get("token_id") is None:
        raise ParameterError("token_id", None, "choose a token or type a text")
    params = form_params(strategy, payload.get("params") or {})
    common = {
        "params": params,
        "seed": controls.to_int(payload.get("seed")),
        "assistant": read_assistant(strategy, payload),
        "weights": form_weights(strategy, payload.get("params") or {}),
        **visitor_media.media_from_form(payload),
    }
    if payload.get("merged") is True:
        check_known_ids(place.prompt_ids, place.kept_ids, merged=True)
    # Ids and values are checked before the slow load of a model.
    ids = [*place.prompt_ids, *place.kept_ids]
    asked = DecodeRequest(strategy.name, payload.get("model") or None, input_ids=ids, **common)
    if is_on_server(asked):
        return _branch_on_server(asked, place, payload)
    own, _ = check_request(check_method_is_local(dataclasses.replace(asked, model=None))).weights
    loaded = get(parse_model(payload.get("model") or None, strategy.default_model), own)
    # A link holds ids without their texts.
    pieces = None if payload.get("linked") is True else payload.get("pieces") or {}
    _check_same_tokens(loaded, place, pieces)
    place = dataclasses.replace(place, vocab_size=loaded.vocab_size)
    branch = make_branch(
        place,
        token_id=payload.get("token_id"),
        text=text,
        tokenizer=loaded.tokenizer,
        special_tokens=params.get("special_tokens"),
    )
    if branch.special_tokens is not None:
        # Its link says how the text was read, whatever the usual reading is where it is opened.
        params["special_tokens"] = branch.special_tokens
    return DecodeRequest(
        strategy.name,
        loaded.name,
        input_ids=list(branch.input_ids),
        parent=branch.parent,
        **common,
    )


def _branch_on_server(
    asked: DecodeRequest, place: BranchPoint, payload: Mapping[str, Any]
) -> DecodeRequest:
    """Return the request of a branch that a server continues by token ids."""
    token_id = payload.get("token_id")
    if payload.get("text") is not None or type(token_id) is not int:
        raise ParameterError(
            "text", payload.get("text"), "a model server continues token ids only: choose a token"
        )
    if payload.get("linked") is not True and payload.get("parent_model") != asked.model:
        raise ParameterError(
            "model",
            Message("endpoint:…"),
            "a branch goes on at the server of its run, or with a model here that has its tokens",
        )
    check_known_ids(place.prompt_ids, (*place.kept_ids, token_id), merged=False)
    branch = make_branch(place, token_id=token_id)
    request = dataclasses.replace(asked, input_ids=list(branch.input_ids), parent=branch.parent)
    check_values(request)
    return request


def _read_branch_point(payload: Mapping[str, Any]) -> BranchPoint:
    lists: dict[str, Any] = {n: payload.get(n) for n in ("prompt_ids", "kept_ids", "end_ids")}
    for name, ids in lists.items():
        if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
            raise ParameterError(name, ids, "it must be a list of token ids")
    step, run_id = payload.get("step"), payload.get("run_id")
    if type(step) is not int or step < 0:
        raise ParameterError("step", step, "it must be a whole number from 0")
    if not isinstance(run_id, str) or len(run_id) > _MAX_RUN_ID:
        raise ParameterError(
            "run_id",
            run_id,
            Message("it must be text of up to {most} characters", most=_MAX_RUN_ID),
        )
    earlier = payload.get("earlier", 0)
    if type(earlier) is not int or not 0 <= earlier < max(len(lists["prompt_ids"]), 1):
        raise ParameterError(
            "earlier", earlier, "it must be a number of tokens at the end of prompt_ids"
        )
    usual = default_special_tokens(chat=payload.get("chat") is True)
    return BranchPoint(
        step=step, run_id=run_id, vocab_size=None, earlier=earlier, special_tokens=usual, **lists
    )


def _check_same_tokens(loaded: LoadedModel, place: BranchPoint, pieces: Any) -> None:
    """Reject a model whose tokenizer reads the kept ids as another text.

    Without this check a branch could continue a different text than the page shows.
    """
    if loaded.is_encoder_decoder:
        raise ParameterError(
            "model", loaded.name, "only decoder-only models can continue a text from a step"
        )
    shown = pieces if isinstance(pieces, Mapping) else {}
    for token_id in (*place.prompt_ids, *place.kept_ids):
        outside = token_id >= loaded.vocab_size
        other = not outside and loaded.pieces[token_id] != shown.get(str(token_id))
        if outside or (other and pieces is not None):
            raise ParameterError(
                "model",
                loaded.name,
                "its tokens are not those of the run that is continued",
                "choose a model with the same tokenizer",
            )
