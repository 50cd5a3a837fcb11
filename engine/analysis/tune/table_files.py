"""A table as CSV, JSON and Markdown, and the folder in which a table goes on after a stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine import csv_table
from engine.analysis.tune.cell_result import CellResult, result_from_dict, result_to_dict
from engine.analysis.tune.measures import MEASURES
from engine.analysis.tune.plan import TunePlan
from engine.analysis.tune.table import Table, format_measure
from engine.messages import Message
from engine.trace import json_io

SCHEMA = "decoding-tune/1"
_JOURNAL = "runs.jsonl"


class TableFolder:
    """A folder with a table: ``runs.jsonl`` grows with every run, ``traces`` has the records."""

    def __init__(self, path: str | Path, plan: TunePlan) -> None:
        self.path, self.plan = Path(path), plan
        (self.path / "traces").mkdir(parents=True, exist_ok=True)

    def load_results(self) -> Iterator[CellResult]:
        """Yield the stored results that belong to runs of this plan, each with its place in it."""
        wanted = {self.plan.cell_key(cell): cell for cell in self.plan.cells}
        journal = self.path / _JOURNAL
        for line in journal.read_text("utf-8").splitlines() if journal.exists() else ():
            try:
                stored = json.loads(line)
                cell = wanted[stored["key"]]
                place = {"prompt": cell.prompt, "setting": cell.setting, "seed": cell.seed}
                yield result_from_dict({**stored["result"], "cell": place})
            except (ValueError, KeyError, TypeError):
                # The last line is incomplete after a crash, and other lines are of an earlier plan.
                continue

    def store_result(self, result: CellResult) -> None:
        """Store a result, and its trace if it has one; a failed run is tried again next time."""
        if result.error:
            return
        if result.trace is not None:
            json_io.save(result.trace, self.trace_path(result))
        line = {"key": self.plan.cell_key(result.cell), "result": result_to_dict(result)}
        with (self.path / _JOURNAL).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def trace_path(self, result: CellResult) -> Path:
        """Return where the trace of a run is: places from 1, as in the table."""
        cell = result.cell
        name = f"setting{cell.setting + 1}-prompt{cell.prompt + 1}-seed{cell.seed}.json.gz"
        return self.path / "traces" / name

    def write_tables(self, table: Table, rank_by: str) -> None:
        """Write table.csv, table.json and table.md."""
        (self.path / "table.csv").write_text(to_csv(table), "utf-8")
        (self.path / "table.json").write_text(
            json.dumps(to_json(table), indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        (self.path / "table.md").write_text(to_markdown(table, rank_by), "utf-8")


def to_csv(table: Table) -> str:
    """Return one line per run, with its measures."""
    plan = table.plan
    measures = [name for name in plan.measures if not MEASURES[name].of_all_seeds]
    rows = [
        (
            plan.names[cell.setting],
            plan.prompts[cell.prompt].label,
            cell.seed,
            found.finish_reason,
            *(found.values.get(name) for name in measures),
            found.text,
            found.error,
        )
        for cell in plan.cells
        if (found := table.results.get(cell)) is not None
    ]
    head = ("setting", "prompt", "seed", "finish_reason", *measures, "text", "error")
    return csv_table.to_csv(head, rows)


def to_json(table: Table) -> dict[str, Any]:
    """Return the plan, every run, and the order and verdict by every measure, as JSON values."""
    plan = table.plan
    return {
        "schema": SCHEMA,
        "model": plan.model,
        "judge": plan.judge,
        "seeds": list(plan.seeds),
        "settings": [
            {"name": name, "strategy": one.strategy, "params": dict(one.params)}
            for name, one in zip(plan.names, plan.settings, strict=True)
        ],
        "prompts": [
            {"prompt": one.prompt, "messages": one.messages, "reference": one.reference}
            for one in plan.prompts
        ],
        "runs": [
            result_to_dict(table.results[cell]) for cell in plan.cells if cell in table.results
        ],
        "measures": {
            name: {
                "order": [{"setting": row.setting, "mean": row.mean} for row in table.rows(name)],
                "verdict": table.verdict(name),
            }
            for name in table.measures
        },
    }


def to_markdown(table: Table, rank_by: str) -> str:
    """Return the settings in the order of a measure with all means, below the verdict."""
    lines = [
        table.verdict(rank_by),
        "",
        "| setting | " + " | ".join(MEASURES[name].label for name in table.measures) + " |",
        "|---" * (1 + len(table.measures)) + "|",
    ]
    means = {name: {row.setting: row.mean for row in table.rows(name)} for name in table.measures}
    for row in table.rows(rank_by):
        cells = [format_measure(name, means[name][row.setting]) for name in table.measures]
        name = table.plan.names[row.setting].replace("|", "\\|")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    missing = len(table.plan.cells) - len(table.results)
    if missing:
        lines += ["", Message("{n} runs are missing.", n=missing)]
    return "\n".join(lines) + "\n"
