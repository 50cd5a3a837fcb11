"""Runs the benchmarks and writes docs/results.md: ``python -m benchmarks.results [BENCHMARK …]``.

Each has a process of its own and is told on the page with the machine, the versions and the commit it was
measured on; what is not run again keeps its last figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.about import ROOT, commit, machine, now, versions
from engine.cli.wrap_markdown import wrap_markdown

TITLES = {
    "recording": "The record beside generate()",
    "beams": "Beam search beside generate()",
    "assisted": "Drafting beside transformers' assisted generation",
    "drafting": "Ways to draft, side by side",
    "strategies": "Contrastive search and DoLa beside greedy search",
    "structured_output": "Structured output",
    "dial_map": "Dial maps",
    "tune": "A table of Tune",
    "sharing": "Runs that share their passes",
    "replicas": "Runs on replicas",
    "backends": "OpenVINO beside torch",
    "step_profile": "One step, part by part",
    "watermark": "Watermarks",
    "length": "Long runs",
    "start": "From the command to the first token",
    "page": "The page",
    "dials": "Dials, opening and switching",
    "gpu": "A GPU",
    "nightly": "The nightly tests",
}
"""The benchmarks in the order of the page."""
BY_NAME_ONLY = ("nightly",)
"""Benchmarks that `make bench` leaves out: they take an hour and measure no speed."""
FILES = "docs/results.json", "docs/results.md"
_HEAD = """# Results

How fast it is, as it was last measured. `make bench` writes this page and [the same as JSON](results.json); one
benchmark alone is measured again by `python -m benchmarks.results NAME`. Ratios compare two things that were done in
turns in one process; above 1 the first is faster. {verdict}
"""


def measured(name: str, arguments: list[str]) -> dict[str, Any] | None:
    """Run a benchmark, show what it prints, and return its last line; None where it failed.

    Args:
        name: of TITLES.
        arguments: of its command line.
    """
    about = {"date": now(), "commit": commit(), "machine": machine(), "versions": versions()}
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = line
            if not line.startswith("{"):
                print(line, end="", flush=True)
    if process.returncode != 0 or not last.startswith("{"):
        print(f"{name} failed with status {process.returncode}; its last figures stay.")
        return None
    return {**json.loads(last), **about}


def write(result: Mapping[str, Any]) -> None:
    """Put a benchmark's result in the place of its last one, and write both files anew."""
    data, page = (ROOT / name for name in FILES)
    kept = json.loads(data.read_text("utf-8")) if data.exists() else []
    name = result["benchmark"]
    results = [*(one for one in kept if one["benchmark"] != name), result]
    results.sort(key=lambda one: list(TITLES).index(one["benchmark"]))
    data.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page.write_text(page_of(results), "utf-8")


def page_of(results: list[dict[str, Any]]) -> str:
    """Return the page that tells every benchmark's figures."""
    judged = [figure for one in results for figure in one["figures"] if "goal" in figure]
    missed = sum(not figure["met"] for figure in judged)
    verdict = f"Of {len(judged)} figures with a goal {len(judged) - missed} reach it."
    sections = (_section(one) for one in results)
    return wrap_markdown("\n".join([_HEAD.format(verdict=verdict), *sections]))


def _section(result: Mapping[str, Any]) -> str:
    about = result["machine"]
    load = ", ".join(str(value) for value in about["load_average"])
    packages = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    rows = "".join(_row(figure) for figure in result["figures"])
    device = f" on {result['device']}" if result.get("device") else ""
    note = f"\n{result['note']}\n" if result.get("note") else ""
    table = f"\n| figure | median | least–most | n | goal |\n|---|---|---|---|---|\n{rows}"
    return (
        f"## {TITLES[result['benchmark']]}\n\n"
        f"`python -m benchmarks.{result['benchmark']}`{device}, {result['date']}, commit {result['commit']}, "
        f"{about['cores']} cores, {about['memory_gb']} GB, load average {load} at the start; {packages}.\n"
        + note
        + (table if rows else f"\n{result['nothing']}\n")
    )


def _row(figure: Mapping[str, Any]) -> str:
    goal = ""
    if "goal" in figure:
        goal = f"{figure['goal']}: {'met' if figure['met'] else '**not met**'}"
    spread = f"{figure['min']:g}–{figure['max']:g}" if figure["n"] > 1 else ""
    return f"| {figure['what']} | {figure['median']:g} | {spread} | {figure['n']} | {goal} |\n"


def main() -> int:
    """Measure, write, and return 1 if a benchmark failed; a goal that is missed fails nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=f"of {', '.join(TITLES)}")
    parser.add_argument("--rounds", type=int, help="of each, in place of its own")
    arguments = parser.parse_args()
    for name in set(arguments.names) - set(TITLES):
        parser.error(f"there is no benchmark {name!r}: they are {', '.join(TITLES)}")
    more = [] if arguments.rounds is None else [f"--rounds={arguments.rounds}"]
    failed = False
    for name in arguments.names or [name for name in TITLES if name not in BY_NAME_ONLY]:
        print(f"\n{TITLES[name]} ({name})", flush=True)
        result = measured(name, more)
        failed = failed or result is None
        if result is not None:
            write(result)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
