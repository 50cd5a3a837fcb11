"""The command ``run``: decodes a prompt or conversation, or continues a run; streams the text."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli import chat_options, media_options, weight_options
from engine.cli.argument_values import Commands, escape_controls, parse_settings, parse_value
from engine.cli.status_line import StatusLine
from engine.errors import EngineError, ParameterError
from engine.sources.endpoint_address import PREFIX
from engine.trace import json_io
from engine.trace.events import (
    Checking,
    Failed,
    Finished,
    Loading,
    Progress,
    RunReplaced,
    TextDelta,
    Waiting,
)
from engine.trace.records import Trace

if TYPE_CHECKING:
    from engine.run.jobs import JobStream
    from engine.run.request import DecodeRequest

_JOIN_TIMEOUT_S = 10.0


def add(commands: Commands) -> None:
    """Add the command ``run``."""
    run = commands.add_parser("run", help="decode a prompt and stream the text to stdout")
    run.add_argument("strategy", nargs="?", help="strategy name; optional with --fork")
    run.add_argument(
        "--model",
        help="catalogue name, hub id, folder, GGUF file, LoRA adapter or endpoint:ADDRESS#NAME",
    )
    run.add_argument("--assistant", help="draft model of a drafting strategy")
    run.add_argument(
        "--prompt", action="append", help="text to continue; repeat the option for several"
    )
    chat_options.add_chat_options(run)
    media_options.add_media_options(run)
    fork = run.add_argument_group("continue a recorded run")
    fork.add_argument("--fork", metavar="TRACE", help="trace file of the run to continue")
    fork.add_argument("--at", type=parse_value, metavar="STEP", help="step to decide again, from 0")
    fork.add_argument("--token", type=parse_value, metavar="ID", help="token id to use at the step")
    fork.add_argument("--text", help="text to use at the step")
    fork.add_argument(
        "--node",
        type=parse_value,
        metavar="ID",
        help="beam search: node to continue; default: the best",
    )
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="parameter of the strategy",
    )
    run.add_argument("--max-new-tokens", type=parse_value, help="maximum number of new tokens")
    # SUPPRESS tells a missing seed from 0: a fork without a seed keeps that of its parent.
    run.add_argument(
        "--seed",
        type=parse_value,
        default=argparse.SUPPRESS,
        help="seed of the random numbers; default: 0, or the recorded seed with --fork",
    )
    run.add_argument("--device", help="device for the models, such as cpu or cuda")
    weight_options.add_weight_options(run, assistant=True)
    run.add_argument(
        "--top", type=parse_value, default=20, help="candidates to record per step; default: 20"
    )
    run.add_argument(
        "--trace",
        help="trace file to write; the ending .gz compresses it. Several prompts write NAME-1, NAME-2",
    )
    run.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from engine import DecodeRequest
    from engine.live import is_on_server
    from engine.serving import decode

    params = parse_settings(arguments.settings)
    if arguments.max_new_tokens is not None:
        params["max_new_tokens"] = arguments.max_new_tokens
    if arguments.fork and (arguments.model or "").startswith(PREFIX):
        request = _make_server_branch(arguments, params)
    elif arguments.fork:
        request = _make_fork_request(arguments, params)
    else:
        request = DecodeRequest(
            arguments.strategy,
            arguments.model,
            (arguments.prompt or [None])[0],
            params=params,
            seed=getattr(arguments, "seed", 0),
            assistant=arguments.assistant,
            top_candidates=arguments.top,
            weights=weight_options.weight_request_fields(arguments),
            **chat_options.chat_request_fields(arguments),
            **media_options.media_request_fields(arguments),
        )
    if not is_on_server(request):
        request = _load_models(request, arguments)
    elif arguments.device is not None:
        raise ParameterError("--device", arguments.device, "a server computes this model")
    if arguments.prompt and len(arguments.prompt) > 1:
        return _run_prompts(request, arguments)
    running = decode(request)
    trace = _print_events(running)
    # A worker thread still inside torch when the interpreter exits would abort the process.
    running.join(_JOIN_TIMEOUT_S)
    if arguments.trace:
        json_io.save(trace, arguments.trace)
    return 0


def _run_prompts(request: DecodeRequest, arguments: argparse.Namespace) -> int:
    """Decode every prompt; print the texts in order and write a trace for each."""
    from engine.serving.prompt_batch import decode_prompts

    for number, trace in enumerate(decode_prompts(request, arguments.prompt), 1):
        sys.stdout.write(f"=== {number}\n")
        texts = "---\n".join(f"{_printable(output.text)}\n" for output in trace.outputs)
        sys.stdout.write(texts)
        _print_notes(trace)
        if arguments.trace:
            path = Path(arguments.trace)
            # The number goes before all endings: run.json.gz becomes run-1.json.gz.
            name, *endings = path.name.split(".")
            json_io.save(trace, path.with_name(".".join([f"{name}-{number}", *endings])))
    return 0


def _printable(text: str) -> str:
    """Return a text as it may be printed."""
    # Only a terminal could be attacked by control characters; files and pipes get the exact text.
    return escape_controls(text) if sys.stdout.isatty() else text


def _print_notes(trace: Trace) -> None:
    for note in trace.notes:
        sys.stderr.write(f"{escape_controls(note)}\n")


def _make_fork_request(arguments: argparse.Namespace, params: dict[str, Any]) -> DecodeRequest:
    """Return the request that continues a trace; given settings replace the parent run's."""
    from engine.analysis.fork import branch_point, branch_request, make_branch
    from engine.declare.weights import parse_weights
    from engine.models.loading import load
    from engine.run.weights import weights_from_trace

    if arguments.prompt is not None:
        raise ParameterError("--prompt", arguments.prompt[0], "--fork has the prompt of its trace")
    if chat_options.chat_request_fields(arguments):
        raise ParameterError("--message", arguments.said, "--fork has the messages of its trace")
    trace = json_io.load(arguments.fork)
    media_options.open_media_files(arguments)
    place = branch_point(trace, arguments.at, node_id=arguments.node)
    model = arguments.model or trace.model.id
    tokenizer = None
    if arguments.text is not None:
        held = {**weights_from_trace(trace), **weight_options.weight_request_fields(arguments)}
        # The typed text is encoded by the tokenizer of the branch's model.
        own, _ = parse_weights(held, trace.strategy, assistant=True)
        tokenizer = load(model, weights=own).tokenizer
    made = make_branch(
        place,
        token_id=arguments.token,
        text=arguments.text,
        tokenizer=tokenizer,
        special_tokens=params.get("special_tokens"),
    )
    request = branch_request(
        trace,
        made,
        arguments.strategy,
        model=model,
        seed=getattr(arguments, "seed", None),
        assistant=arguments.assistant,
    )
    return dataclasses.replace(
        request,
        params={**request.params, **params},
        top_candidates=arguments.top,
        weights={**request.weights, **weight_options.weight_request_fields(arguments)},
        **media_options.media_request_fields(arguments),
    )


def _make_server_branch(arguments: argparse.Namespace, params: dict[str, Any]) -> DecodeRequest:
    """Return the request that continues a server's trace by its token ids."""
    from engine import DecodeRequest
    from engine.live.resume import branch_ids

    if arguments.prompt is not None or arguments.text is not None:
        raise ParameterError("--fork", arguments.fork, "a server continues it with --token only")
    trace = json_io.load(arguments.fork)
    ids, parent = branch_ids(trace, arguments.at, arguments.token)
    return DecodeRequest(
        arguments.strategy or "greedy",
        arguments.model,
        input_ids=ids,
        params=params,
        seed=getattr(arguments, "seed", trace.seed),
        top_candidates=arguments.top,
        parent=parent,
    )


def _load_models(request: DecodeRequest, arguments: argparse.Namespace) -> DecodeRequest:
    """Load the request's models on the ``--device``; without it, return the request unchanged."""
    from engine.models.loading import load
    from engine.run.request import check_request

    checked = check_request(request)
    if arguments.device is None:
        return request
    strategy, (own, draft) = checked.strategy, checked.weights
    name = str(request.model or strategy.default_model)
    # A loaded model has its weights already; a request may not name any for it.
    changes = {"model": load(name, arguments.device, weights=own), "weights": {}}
    assistant = request.assistant or strategy.default_assistant
    if strategy.assistant != "none" and assistant is not None:
        changes["assistant"] = load(str(assistant), arguments.device, weights=draft)
    return dataclasses.replace(request, **changes)


class _RunStatus(StatusLine):
    """Status line of a run: queue position, loading and measurements."""

    def show_event(self, event: Progress) -> None:
        """Show a Waiting, Loading or Checking event."""
        from engine.run.progress import format_progress

        about = event.what if isinstance(event, Checking) else type(event).__name__
        # Measurements come after the text, so its line is ended first.
        before = "\n" if isinstance(event, Checking) and about != self.last else ""
        self.show(format_progress(event), about, before)


def _print_events(run: JobStream) -> Trace:
    """Stream the first output's text and return the trace; reprint revised text on a new line."""
    from engine.run.progress import format_restart

    text, aside = "", _RunStatus()
    for event in run:
        if isinstance(event, Waiting | Loading | Checking):
            aside.show_event(event)
            continue
        aside.end()
        # The other sequences follow at the end: their pieces come between those of the first.
        if isinstance(event, TextDelta) and event.sequence == 0:
            if event.keep_chars < len(text):
                sys.stdout.write("\n" + _printable(text[: event.keep_chars]))
            text = text[: event.keep_chars] + event.text
            sys.stdout.write(_printable(event.text))
            sys.stdout.flush()
        elif isinstance(event, RunReplaced):
            sys.stdout.write("\n")
            sys.stderr.write(f"{format_restart(event.step)}\n")
            text = ""  # the new run streams its text from the start
        elif isinstance(event, Failed):
            raise event.error
        elif isinstance(event, Finished):
            sys.stdout.write("\n")
            for output in event.trace.outputs[1:]:
                sys.stdout.write(f"---\n{_printable(output.text)}\n")
            _print_notes(event.trace)
            return event.trace
    raise EngineError("The run ended without a result.")
