"""Command line: list · run · replay · export · verify · detect.

Unusable input is one line on stderr and exit 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from engine.cli.detect import add_detect_command
from engine.cli.export import add_export_commands
from engine.errors import EngineError, ParameterError
from engine.trace import json_io
from engine.trace.records import Trace, replay_ids

_LEAVE_S = 10.0


class _Parser(argparse.ArgumentParser):
    """argparse, with errors of one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        sys.stderr.write(f"{self.prog}: {message}\n")
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = _Parser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    _add_list(commands)
    _add_run(commands)
    replay = commands.add_parser("replay", help="print a run from its trace, without any model")
    replay.add_argument("file")
    replay.set_defaults(handler=_replay)
    add_export_commands(commands)
    add_detect_command(commands)
    arguments = parser.parse_args(argv)
    try:
        return arguments.handler(arguments) or 0
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


def _add_list(commands: Any) -> None:
    listing = commands.add_parser("list", help="strategies, their parameters, and models")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(handler=_list)


def _list(arguments: argparse.Namespace) -> None:
    from engine.declare.params import defaults_of, params_of
    from engine.models.catalogue import CATALOGUE
    from engine.strategies import STRATEGIES

    strategies = [
        {
            "name": s.name,
            "title": s.title,
            "family": s.family,
            "summary": s.summary,
            "params": {
                n: {"default": defaults_of(s.config)[n], "allowed": p.allowed(), "help": p.help}
                for n, p in params_of(s.config).items()
            },
        }
        for s in STRATEGIES.values()
    ]
    models = [
        {
            "name": e.name,
            "title": e.title,
            "parameters": e.parameters,
            "good_for": e.good_for,
            "available_offline": e.embedded and e.available,
        }
        for e in CATALOGUE.values()
    ]
    if arguments.json:
        print(json.dumps({"strategies": strategies, "models": models}))
        return
    for strategy in strategies:
        print(f"{strategy['name']:22}{strategy['title']}: {', '.join(strategy['params'])}")
    for model in models:
        print(f"{model['name']:32}{model['parameters']:>7}  {model['good_for']}")


def _add_run(commands: Any) -> None:
    run = commands.add_parser("run", help="decode a prompt; the text streams to stdout")
    run.add_argument("strategy", nargs="?", help="may be left out with --fork")
    run.add_argument("--model")
    run.add_argument("--assistant")
    run.add_argument("--prompt")
    fork = run.add_argument_group("continue a recorded run")
    fork.add_argument("--fork", metavar="TRACE", help="trace file of the run to continue")
    fork.add_argument("--at", type=_json_value, metavar="STEP", help="step that is decided anew")
    fork.add_argument("--token", type=_json_value, metavar="ID", help="token id to put there")
    fork.add_argument("--text", help="text to put there")
    fork.add_argument("--node", type=_json_value, metavar="ID", help="node of a beam search")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    run.add_argument("--max-new-tokens", type=_json_value)
    run.add_argument("--seed", type=_json_value, default=argparse.SUPPRESS)
    run.add_argument("--device")
    run.add_argument("--dtype")
    run.add_argument("--quantization", choices=("4bit", "8bit"))
    run.add_argument("--top", type=_json_value, default=20, help="candidates recorded per step")
    run.add_argument("--trace", help="file to write the trace to; .gz compresses it")
    run.set_defaults(handler=_run)


def _json_value(text: str) -> Any:
    """Return text as the JSON value it spells, else as text; the engine judges it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _run(arguments: argparse.Namespace) -> int:
    from engine import DecodeRequest, decode

    params = dict(_setting(text) for text in arguments.settings)
    if arguments.max_new_tokens is not None:
        params["max_new_tokens"] = arguments.max_new_tokens
    if arguments.fork:
        request = _forked(arguments, params)
    else:
        request = DecodeRequest(
            arguments.strategy,
            arguments.model,
            arguments.prompt,
            params=params,
            seed=getattr(arguments, "seed", 0),
            assistant=arguments.assistant,
            top_candidates=arguments.top,
        )
    running = decode(_loaded(request, arguments))
    trace = _print_events(running)
    # A worker that is still in torch when the interpreter ends would abort the process.
    running.join(_LEAVE_S)
    if arguments.trace:
        json_io.save(trace, arguments.trace)
    return 0


def _forked(arguments: argparse.Namespace, params: dict[str, Any]) -> Any:
    """Return the request that continues a trace; settings that are given replace the parent's."""
    import dataclasses

    from engine.after.fork import branch, place_of, request_for
    from engine.models.loading import load

    if arguments.prompt is not None:
        raise ParameterError("--prompt", arguments.prompt, "--fork has the prompt of its trace")
    trace = json_io.load(arguments.fork)
    place = place_of(trace, arguments.at, node_id=arguments.node)
    model = arguments.model or trace.model.id
    tokenizer = None if arguments.text is None else load(model).tokenizer
    made = branch(place, token_id=arguments.token, text=arguments.text, tokenizer=tokenizer)
    request = request_for(
        trace,
        made,
        arguments.strategy,
        model=model,
        seed=getattr(arguments, "seed", None),
        assistant=arguments.assistant,
    )
    return dataclasses.replace(
        request, params={**request.params, **params}, top_candidates=arguments.top
    )


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError("--set", text, "it must be name=value")
    return name, _json_value(value)


def _loaded(request: Any, arguments: argparse.Namespace) -> Any:
    """Load the models here when a device, dtype or quantisation is asked for."""
    import dataclasses

    from engine.models.loading import load
    from engine.run.request import check

    options = (arguments.device, arguments.dtype, arguments.quantization)
    strategy = check(request).strategy
    if not any(options):
        return request
    changes = {"model": load(request.model or strategy.default_model, *options)}
    if strategy.assistant != "none":
        changes["assistant"] = load(request.assistant or strategy.default_assistant, *options)
    return dataclasses.replace(request, **changes)


def _print_events(run: Any) -> Trace:
    """Stream the first output's text; a revised text is printed again on a new line."""
    from engine.trace.events import Failed, Finished, TextDelta

    text = ""
    for event in run:
        if isinstance(event, TextDelta) and event.sequence == 0:
            if event.keep_chars < len(text):
                sys.stdout.write("\n" + text[: event.keep_chars])
            text = text[: event.keep_chars] + event.text
            sys.stdout.write(event.text)
            sys.stdout.flush()
        elif isinstance(event, Failed):
            raise event.error
        elif isinstance(event, Finished):
            sys.stdout.write("\n")
            for output in event.trace.outputs[1:]:
                sys.stdout.write(f"---\n{output.text}\n")
            for note in event.trace.notes:
                sys.stderr.write(f"{note}\n")
            return event.trace
    raise EngineError("The run ended without a result.")


def _replay(arguments: argparse.Namespace) -> None:
    trace = json_io.load(arguments.file)
    print(f"{trace.strategy} · {trace.model.id} · seed {trace.seed}")
    print(f"prompt: {trace.prompt if trace.prompt is not None else list(trace.prompt_ids)}")
    for step in trace.steps:
        emitted = "".join(trace.pieces[i] for i in step.emit)
        best = [f"{trace.pieces[c.token_id]!r} {c.raw_logprob:.3f}" for c in step.candidates[:3]]
        print(f"{step.index:4} keep {step.keep:3} emit {emitted!r:16} of {', '.join(best)}")
    for number, output in enumerate(trace.outputs):
        steps = trace.steps_of(number)
        agrees = not steps or replay_ids(steps) == list(output.token_ids)
        print(
            f"output {number} ({output.finish_reason}{'' if agrees else ', replay differs'}): {output.text}"
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
