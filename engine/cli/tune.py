"""The command ``tune``: runs a table of prompts, settings and seeds, and says how the settings differ."""

from __future__ import annotations

import argparse
import sys

from engine.cli.argument_values import Commands, escape_controls
from engine.cli.status_line import StatusLine


def add(commands: Commands) -> None:
    """Add the command ``tune``."""
    command = commands.add_parser(
        "tune", help="compare settings on a list of prompts with several seeds"
    )
    command.add_argument("file", help="YAML file with prompts, settings, seeds and measures")
    command.add_argument(
        "--out", help="folder for the table and the traces; a stopped table goes on from it"
    )
    command.add_argument("--rank-by", help="measure of the order; default: the file's first one")
    command.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from engine.analysis.tune.read_plan import load_plan
    from engine.analysis.tune.run_table import run_table
    from engine.analysis.tune.table import Table
    from engine.analysis.tune.table_files import TableFolder, to_markdown
    from engine.serving import decode

    plan = load_plan(arguments.file)
    table = Table(plan)
    rank_by = arguments.rank_by or plan.measures[0]
    # A wrong name is refused now, not after an hour.
    table.rows(rank_by)
    folder = TableFolder(arguments.out or Path(arguments.file).with_suffix(""), plan)
    for result in folder.load_results():
        table.add(result)
    done = list(table.results.values())
    try:
        with StatusLine() as status:
            for result in run_table(plan, done, decode=decode):
                table.add(result)
                folder.store_result(result)
                if result.error:
                    status.end()
                    sys.stderr.write(f"{escape_controls(result.error)}\n")
                status.show(f"{len(table.results)} of {len(plan.cells)} runs", "runs")
    finally:
        folder.write_tables(table, rank_by)
    print(escape_controls(to_markdown(table, rank_by).rstrip()))
