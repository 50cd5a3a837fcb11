"""The command ``replay``: a run from its trace, without any model."""

from __future__ import annotations

import argparse
from typing import Any

from engine.trace import json_io
from engine.trace.records import replay_ids


def add(commands: Any) -> None:
    """Add ``replay``."""
    replay = commands.add_parser("replay", help="print a run from its trace, without any model")
    replay.add_argument("file")
    replay.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
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
