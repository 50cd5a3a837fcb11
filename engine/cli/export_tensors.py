"""The command ``export-tensors``: writes the tensors that generate() returns for a recorded run.

The safetensors file holds scores, logits, hidden states or attentions. The run is repeated by
transformers itself.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from engine.cli import media_options
from engine.cli.argument_values import Commands
from engine.cli.status_line import StatusLine
from engine.trace import json_io

_FLAGS = {
    "scores": "logits of every step after the filters",
    "logits": "the model's own logits of every step",
    "hidden_states": "hidden states of every step and layer",
    "attentions": "attention weights of every step and layer",
}


def add(commands: Commands) -> None:
    """Add the command ``export-tensors``."""
    rich = commands.add_parser(
        "export-tensors",
        help="repeat a run in transformers and save its scores, logits, hidden states or attentions",
    )
    rich.add_argument("file", help="trace of the run to repeat")
    rich.add_argument(
        "--to",
        metavar="FILE",
        help="safetensors file to write; without it, print only its size in bytes",
    )
    for name, about in _FLAGS.items():
        rich.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=about)
    media_options.add_media_file_options(rich)
    rich.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    from engine.analysis.generate_outputs import rerun_generate
    from engine.analysis.generate_outputs_files import output_metadata, save_output
    from engine.analysis.generate_outputs_flags import check_has_outputs, parse_flags
    from engine.analysis.generate_outputs_sizes import check_size
    from engine.run.progress import format_progress

    trace = json_io.load(arguments.file)
    media_options.open_media_files(arguments)
    flags = parse_flags({f"output_{name}": getattr(arguments, name) for name in _FLAGS})
    check_has_outputs(trace)
    sys.stdout.write(f"about {check_size(trace, flags):,} bytes\n")
    sys.stdout.flush()  # the size is visible before the repeated run, which takes long
    if arguments.to is None:
        return 0
    with StatusLine() as line:
        output = rerun_generate(
            trace,
            **asdict(flags),
            tell=lambda event: line.show(format_progress(event), type(event).__name__),
        )
    save_output(output, arguments.to, output_metadata(trace, flags))
    sys.stdout.write(f"{arguments.to}\n")
    return 0
