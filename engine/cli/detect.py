"""The command ``detect``: tests a text or the outputs of a trace for a watermark; prints JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from engine.cli.argument_values import Commands, parse_settings
from engine.trace import json_io


def add(commands: Commands) -> None:
    """Add the command ``detect``."""
    command = commands.add_parser("detect", help="test a text for a watermark; prints JSON")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="text to test; - reads standard input")
    source.add_argument("--trace", help="trace file; tests every output without its prompt")
    command.add_argument("--model", help="model whose tokenizer reads --text")
    command.add_argument("--prompt", help="prompt to skip at the start of --text")
    command.add_argument("--device", help="device type that generated the text: cpu or cuda")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="watermark parameter, such as hashing_key=7, scheme=synthid or z_threshold=4, or "
        "special_tokens=text: the names of special tokens in --text are words",
    )
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    values = parse_settings(arguments.settings)
    answer = (
        _detect_in_trace(arguments, values)
        if arguments.trace is not None
        else _detect_in_text(arguments, values)
    )
    sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
    return 0


def _detect_in_trace(arguments: argparse.Namespace, values: dict[str, Any]) -> dict[str, Any]:
    from engine.analysis.watermark_detection import DetectError, detect_trace

    if arguments.model is not None or arguments.prompt is not None:
        raise DetectError(
            "A trace brings its own model and prompt: leave --model and --prompt out."
        )
    trace = json_io.load(arguments.trace)
    found = [
        detect_trace(trace, values, sequence=i, device=arguments.device).to_dict(trace.pieces)
        for i in range(len(trace.outputs))
    ]
    if not found:
        raise DetectError("The trace has no output to judge.")
    name = Path(arguments.trace).name
    return {
        "source": "trace",
        "trace": name,
        "model": trace.model.id,
        **found[0],
        "others": found[1:],
    }


def _detect_in_text(arguments: argparse.Namespace, values: dict[str, Any]) -> dict[str, Any]:
    from engine.analysis.watermark_detection import DetectError, build_watermark_config, detect_text
    from engine.models.loading import load

    if arguments.model is None:
        raise DetectError("Say with --model whose text it may be: tokens are counted, not words.")
    config = build_watermark_config(values)
    loaded = load(arguments.model)
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    found = detect_text(text, loaded, config, prompt=arguments.prompt, device=arguments.device)
    pieces = loaded.pieces.of(found.ids)
    return {"source": "text", "model": arguments.model, **found.to_dict(pieces)}
