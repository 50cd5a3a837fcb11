"""docs/scale.md from docs/scale.json: the tables are generated, and so is every number in the text."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.about import ROOT
from benchmarks.scale import plan
from engine.cli.wrap_markdown import wrap_markdown

FILES = "docs/scale.json", "docs/scale.md"
_NOT_YET = "Not measured yet."
_HEAD = """# Scale

From one visitor to a lecture hall: what a run and a visitor cost, a simulation with those costs beside what
was measured, and what it says of a hundred thousand visitors. `python -m benchmarks.scale all` measures,
simulates and writes this page and [the same as JSON](scale.json); `python -m benchmarks.scale NAME …` does
parts of it again: {names}.

Measured are a processor's figures on the machine named beside each table. Nothing here was measured on a GPU:
no machine with one was at hand, so what is said of it is assumed and called so.
"""
_COST = """A mix of all strategies but custom methods, each with its first preset and at most {steps} new
tokens: a run takes a replica {mean_ms:.0f} ms in the mean. A visitor's page takes {open_kb:.0f} kB before
anything runs, {open_ms:.1f} ms of the web process, and {idle_ms:.2f} ms a second while it is open and nothing
goes on; while it waits {waiting_ms:.1f} ms a second more. Memory grows by {visitor_kb:.0f} kB a visitor (of
the last hundred: Gradio forgets earlier ones). The journal takes {journal_kb:.0f} kB of
messages a run, and {disk_kb:.0f} kB of disk with its log. The
server's process had {empty_mb:.0f} MB before and {rss_mb:.0f} MB after. Network bytes are those of bodies, as
they came.
"""
_COMPARED = """All visitors press Run at once; waiting is from the press to the run's turn. What is measured is
the median of so many such crowds, one after the other, that a hundred runs were asked for. The simulation
has the times that every run took alone in the same session, before and after, and the share by which company
slows a run, from a crowd of its own. It is within 20 % of the measured p50 and p95 in {within} of {n} rows.
"""
_HALL = """Real processes: what every run should be was asked of one engine alone. All counts of what went
wrong should be 0.
"""
_GROWN = """Everybody comes within an hour (a Poisson process), presses Run three times and reads for a
minute in between. A replica is lost every ten minutes, each in turn, and is back after 30 s; its runs are run
again elsewhere. 32 runs may wait for a replica; who is refused presses again after ten seconds. *Planned* has
as many replicas and web processes as a load of 70 % needs; *passes shared* lets up to eight runs of greedy
search, sampling and watermark share passes, at the gains 1.9, 3.1 and 5.6 that forward passes of 2, 4 and 8
rows had. Medians of {n} simulations (one at the largest size), with least and most.
"""
_BENDS = """What one of each bears, in visitors an hour at a load of 70 % (network, time) or until it is full
(memory, disk). The first row bends first: add that before anything else.
"""
_MONEY = """Prices are assumptions of {date}, of no provider in particular, and are there to be replaced.
Runs per hour follow from the measured seconds of a run at a load of 70 %, without passes that are shared.
"""


def read() -> dict[str, Any]:
    """Return what was measured and simulated last, by name."""
    data = ROOT / FILES[0]
    return json.loads(data.read_text("utf-8")) if data.exists() else {}


def write(results: Mapping[str, Any]) -> None:
    """Write both files."""
    data, page = (ROOT / name for name in FILES)
    data.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page.write_text(page_of(results), "utf-8")


def page_of(results: Mapping[str, Any]) -> str:
    """Return the page."""
    from benchmarks.scale.__main__ import PARTS

    parts = [_HEAD.format(names=", ".join(f"`{name}`" for name in PARTS))]
    cost = results.get("cost")
    parts += ["## What a run and a visitor cost\n", _cost(cost) if cost else _NOT_YET + "\n"]
    compared = [results[name] for name in ("compare-local", "compare-ray") if name in results]
    parts += ["## The simulation beside what it simulates\n", _compared(compared)]
    halls = [results[name] for name in ("hall-local", "hall-ray", "hall-web") if name in results]
    parts += ["## The load programme\n", _halls(halls)]
    grown = results.get("plan", {}).get("rows")
    parts += ["## A hundred thousand visitors, simulated\n", _grown(grown)]
    if cost:
        parts += ["## Where it bends first\n", _BENDS, _limits(cost)]
        parts += ["## Money\n", _MONEY.format(date=plan.PRICES_OF), _money(cost)]
    return wrap_markdown("\n".join(parts))


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(str(value) for value in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _where(about: Mapping[str, Any], name: str) -> str:
    machine = about["machine"]
    load = ", ".join(str(value) for value in machine["load_average"])
    return (
        f"`python -m benchmarks.scale {name}`, {about['date']}, commit {about['commit']}, {machine['cores']} cores, "
        f"{machine['memory_gb']} GB, load average {load} at the start.\n"
    )


def _cost(cost: Mapping[str, Any]) -> str:
    text = _COST.format(
        steps=cost["steps"],
        mean_ms=1000 * plan.mean_s(cost),
        open_kb=cost["open_bytes"] / 1e3,
        open_ms=1000 * cost["open_cpu_s"],
        idle_ms=1000 * cost["idle_web_s"],
        waiting_ms=1000 * cost["waiting_web_s"],
        visitor_kb=cost["visitor_bytes"] / 1e3,
        journal_kb=cost["journal_bytes"] / 1e3,
        disk_kb=cost["disk_bytes"] / 1e3,
        empty_mb=cost["empty_rss_bytes"] / 1e6,
        rss_mb=cost["rss_bytes"] / 1e6,
    )
    names = list(dict.fromkeys(one["name"] for one in cost["kinds"]))
    rows = [_kind(name, [one for one in cost["kinds"] if one["name"] == name]) for name in names]
    head = ("strategy", "steps", "CPU ms a run", "least–most", "n", "CPU ms a step")
    table = _table((*head, "web CPU ms a run", "kB sent"), rows)
    return "\n".join([_where(cost, "cost"), text, table])


def _kind(name: str, ones: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    cpu = [1000 * value for one in ones for value in one["cpu_s"]]
    steps = statistics.fmean(one["steps"] for one in ones)
    middle = statistics.median(cpu)
    web = 1000 * statistics.median(one["web_s"] for one in ones)
    sent = statistics.median(one["bytes_sent"] for one in ones) / 1e3
    spread = f"{min(cpu):.0f}–{max(cpu):.0f}"
    return (
        name, f"{steps:g}", f"{middle:.0f}", spread, len(cpu), f"{middle / steps:.1f}", f"{web:.0f}", f"{sent:.0f}",
    )  # fmt: skip


def _compared(compared: Sequence[Mapping[str, Any]]) -> str:
    rows = [row for one in compared for row in one["rows"]]
    if not rows:
        return _NOT_YET + "\n"
    parts = [_COMPARED.format(within=sum(row["within"] for row in rows), n=len(rows))]
    for one in compared:
        about = {**one, **{key: one["rows"][0][key] for key in ("machine", "date")}}
        parts += [_where(about, f"compare-{one['compare']}"), _table(_COMPARE_HEAD, _pairs(one))]
    return "\n".join(parts)


_COMPARE_HEAD = ("visitors", "runs", "replicas", "figure", "measured", "simulated", "ratio")


def _pairs(one: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    for row in one["rows"]:
        for name, figure in row["figures"].items():
            told = f"{figure['simulated']:g} ({figure['least']:g}–{figure['most']:g})"
            who = (row["visitors"], row["runs"], row["replicas"])
            yield (*who, name, f"{figure['measured']:g}", told, f"{figure['ratio']:g}")


def _halls(halls: Sequence[Mapping[str, Any]]) -> str:
    if not halls:
        return _NOT_YET + "\n"
    names = ("runs", "runs_lost", "steps", "steps_lost", "doubled", "foreign", "unequal", "killed")
    names += ("wait_p50_s", "wait_p95_s", "first_p50_s", "first_p95_s", "runs_per_s")
    head = ("figure", *(f"{one['hall']}, {one['load']['visitors']} visitors" for one in halls))
    rows = [(name, *(one[name] for one in halls)) for name in names]
    rows += [
        (name, *(_grew(one, name) for one in halls))
        for name in ("rss_mb", "replicas_rss_mb", "files", "threads")
    ]
    where = [_where(one, f"hall-{one['hall']}") for one in halls]
    return "\n".join([_HALL, *where, _table(head, rows)])


def _grew(one: Mapping[str, Any], name: str) -> str:
    if "before" not in one:
        return ""
    return f"{one['before'][name]} → {one['after'][name]}"


def _grown(rows: Sequence[Mapping[str, Any]] | None) -> str:
    if not rows:
        return _NOT_YET + "\n"
    head = ("hall", "visitors", "replicas", "webs", "wait p50 s", "p95", "p99", "first p95 s")
    head += ("runs/s", "replicas busy", "webs busy", "refusals", "given up", "MB/s", "steps again")
    return "\n".join([_GROWN.format(n=plan.REPEATS), _table(head, map(_size, rows))])


def _size(row: Mapping[str, Any]) -> Sequence[Any]:
    told = row["figures"]
    waits = [_spread(told[name]) for name in ("wait_p50_s", "wait_p95_s", "wait_p99_s")]
    rest = (
        f"{told['runs_per_s']['median']:.2f}",
        f"{told['replicas_busy']['median']:.0%}",
        f"{told['webs_busy']['median']:.0%}",
        f"{told['refusals']['median']:.0f}",
        f"{told['given_up']['median']:.0f}",
        f"{told['bytes_per_s']['median'] / 1e6:.2f}",
        f"{told['repeated_steps']['median']:.0f}",
    )
    size = (row["hall"], row["visitors"], row["replicas"], row["webs"])
    return (*size, *waits, _spread(told["first_p95_s"]), *rest)


def _spread(figure: Mapping[str, float]) -> str:
    if figure["n"] == 1:
        return f"{figure['median']:.2f}"
    return f"{figure['median']:.2f} ({figure['min']:.2f}–{figure['max']:.2f})"


def _limits(cost: Mapping[str, Any]) -> str:
    rows = [(row["what"], f"{row['visitors_per_hour']:,}") for row in plan.limits(cost)]
    return _table(("resource", "visitors an hour"), rows)


def _money(cost: Mapping[str, Any]) -> str:
    rows = [
        (
            row["machine"],
            f"{row['per_hour']:.2f}",
            f"{row['runs_per_hour']:,}",
            f"{row['per_thousand']:.4f}",
            row["basis"],
        )
        for row in plan.money(cost)
    ]
    head = ("machine", "US$ an hour (assumed)", "runs an hour", "US$ per thousand runs", "basis")
    return _table(head, rows)
