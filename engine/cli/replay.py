"""The command ``replay``: prints a run from its trace, without a model."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from engine.cli.argument_values import Commands, escape_controls
from engine.trace import json_io
from engine.trace.records import Trace, replay_ids


def add(commands: Commands) -> None:
    """Add the command ``replay``."""
    replay = commands.add_parser("replay", help="print a recorded run without loading a model")
    replay.add_argument("file", help="trace file")
    replay.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    for line in _format_trace(json_io.load(arguments.file)):
        print(escape_controls(line))


def _format_trace(trace: Trace) -> Iterator[str]:
    """Yield a run as lines. Its texts come from the file and are not escaped."""
    if trace.served is None:
        yield f"{trace.strategy} · {trace.model.id} · seed {trace.seed}"
    else:
        yield f"{trace.strategy} · {trace.model.id} · {trace.served.server}"
    if trace.messages is None:
        yield f"prompt: {trace.prompt if trace.prompt is not None else list(trace.prompt_ids)}"
    for message in trace.messages or ():
        yield f"{message['role']}: {message.get('content') or message.get('tool_calls')}"
    for step in trace.steps:
        emitted = "".join(trace.pieces[i] for i in step.emit)
        best = [f"{trace.pieces[c.token_id]!r} {c.raw_logprob:.3f}" for c in step.candidates[:3]]
        yield f"{step.index:4} keep {step.keep:3} emit {emitted!r:16} of {', '.join(best)}"
    for number, output in enumerate(trace.outputs):
        steps = trace.steps_of(number)
        agrees = not steps or replay_ids(steps) == list(output.token_ids)
        ending = f"{output.finish_reason}{'' if agrees else ', replay differs'}"
        yield f"output {number} ({ending}): {output.text}"
