"""Branches: continue a run from one of its steps, with any strategy.

The page sends the exact token ids to continue, so the server needs no record of the parent run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from engine.analysis.fork import BranchPoint, make_branch
from engine.errors import EngineError, ParameterError
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.run.jobs import JobStream
from engine.run.preparation import ModelLoader, get_model, parse_model
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
from playground.jobs.background_jobs import resumable
from playground.jobs.progress import with_progress
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.runs.stream import progress_message, refusal_message, run_state, stream_run
from playground.shell.elements import PRESS_EVENT, add_hidden_element, to_outputs
from playground.shell.guard import error_message
from playground.shell.scripts import on_message
from playground.storage.journal import JOURNAL

_MAX_NUMBER = 2**31
_MAX_RUN_ID = 64


class _BranchStart:
    """Follower that records whether a branch has started, or the error that prevented it."""

    def __init__(self) -> None:
        self.run_id = ""
        self.begun = False
        self.error = ""

    def begin(self, run: JobStream) -> None:
        """Store the id of the branch's run."""
        self.run_id = run.run_id

    def observe_events(self, events: list[Any]) -> dict[str, Any]:
        """Look for the start or a refusal; adds nothing to the messages."""
        for event in events:
            self.begun = self.begun or isinstance(event, Started)
            if isinstance(event, Failed) and not self.begun:
                self.error = str(event.error)
        return {}


def build_fork(bus: Any, queue: str) -> None:
    """Build the hidden element through which the page requests a branch.

    Args:
        bus: the hidden element that carries run messages.
        queue: the Gradio concurrency id that all runs share.
    """
    asking = add_hidden_element(
        "dp-fork-bus", on_message("p.family((data) => trigger('input', data))")
    )
    asking.input(
        on_gpu(resumable(_start_branch, _ended_state)),
        None,
        [bus, asking],
        **queue_options(queue),
        **PRESS_EVENT,
    )


def _start_branch(asked: dict[str, Any]) -> Generator[tuple[Any, Any], None, None]:
    yield from to_outputs(run_branch(asked))


def _ended_state(asked: dict[str, Any]) -> tuple[Any, Any]:
    return next(to_outputs([(run_state(str(asked.get("run", ""))[:64]), None)]))


def run_branch(asked: Any) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Decode a branch.

    Args:
        asked: what the page sent; see ``read_request``. The answers repeat its ``number``.

    Yields:
        (run message or None, answer or None). The first answer has the id of the run, or the error
        if it cannot start. It never raises.
    """
    asked = asked if isinstance(asked, dict) else {}
    number = asked.get("number")
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MAX_NUMBER
    about = {"number": number if known else 0}
    start = _BranchStart()
    told = False
    try:
        key = read_strategy(asked).name
        request = yield from _read_request_with_progress(asked, key)
        for text in stream_run(request, follow=start):
            if start.error and not told:
                yield None, {**about, "error": start.error}
                return
            yield text, None if told else {**about, "run": start.run_id}
            told = True
    except GeneratorExit:
        raise
    # A panic of the tokenizer library is no Exception, see ``guard``.
    except BaseException as error:
        yield None, {**about, "error": error_message(error)}


def _read_request_with_progress(
    asked: Mapping[str, Any], key: str
) -> Generator[tuple[str, None], None, DecodeRequest]:
    """Read the request and yield progress while its model loads; Stop works during the load."""
    works: list[JobStream] = []
    said = False

    def begin(work: JobStream) -> None:
        works.append(work)
        # Stop finds the work by its id in the journal.
        JOURNAL.open(work)

    reading = with_progress(lambda tell, left: read_request(asked, ModelLoader(left, tell)), begin)
    while True:
        try:
            news = next(reading)
        except StopIteration as done:
            return done.value
        except EngineError as error:
            if said:
                yield refusal_message(key, error, works[0].run_id), None
            raise
        said = True
        yield progress_message(works[0].run_id, key, news), None


def read_request(
    asked: Mapping[str, Any], get: Callable[..., LoadedModel] = get_model
) -> DecodeRequest:
    """Read the request of a branch.

    Args:
        asked: ``prompt_ids``, ``kept_ids``, ``step``, ``run_id``, ``end_ids`` and ``pieces`` of the
            parent (``linked`` ids need no pieces); ``parse_token_id`` or ``text``; ``strategy``,
            ``model``, ``assistant``, ``params`` and ``seed`` of the branch; ``image`` and ``audio``
            of the parent.
        get: returns the model from a source.

    Raises:
        EngineError: a value is not valid, or the model's tokens differ from the parent's.
    """
    strategy = read_strategy(asked)
    place = _read_branch_point(asked)
    text = asked.get("text")
    if text is None and asked.get("token_id") is None:
        raise ParameterError("token_id", None, "choose a token or type a text")
    params = form_params(strategy, asked.get("params") or {})
    common = {
        "params": params,
        "seed": controls.to_int(asked.get("seed")),
        "assistant": read_assistant(strategy, asked),
        "weights": form_weights(strategy, asked.get("params") or {}),
        **visitor_media.media_from_form(asked),
    }
    # Ids and values are checked before the slow load of a model.
    ids = [*place.prompt_ids, *place.kept_ids]
    own, _ = check_request(
        check_method_is_local(DecodeRequest(strategy.name, input_ids=ids, **common))
    ).weights
    loaded = get(parse_model(asked.get("model") or None, strategy.default_model), own)
    # A link holds ids without their texts.
    pieces = None if asked.get("linked") is True else asked.get("pieces") or {}
    _check_same_tokens(loaded, place, pieces)
    place = dataclasses.replace(place, vocab_size=loaded.vocab_size)
    made = make_branch(place, token_id=asked.get("token_id"), text=text, tokenizer=loaded.tokenizer)
    return DecodeRequest(
        strategy.name,
        loaded.name,
        input_ids=list(made.input_ids),
        parent=made.parent,
        **common,
    )


def _read_branch_point(asked: Mapping[str, Any]) -> BranchPoint:
    lists: dict[str, Any] = {n: asked.get(n) for n in ("prompt_ids", "kept_ids", "end_ids")}
    for name, ids in lists.items():
        if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
            raise ParameterError(name, ids, "it must be a list of token ids")
    step, run_id = asked.get("step"), asked.get("run_id")
    if type(step) is not int or step < 0:
        raise ParameterError("step", step, "it must be a whole number from 0")
    if not isinstance(run_id, str) or len(run_id) > _MAX_RUN_ID:
        raise ParameterError(
            "run_id",
            run_id,
            Message("it must be text of up to {most} characters", most=_MAX_RUN_ID),
        )
    return BranchPoint(step=step, run_id=run_id, vocab_size=None, **lists)


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
