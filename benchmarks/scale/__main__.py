"""Measures, simulates and writes docs/scale.md: ``python -m benchmarks.scale [PART …]``.

Without a part the page is written anew from what is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.about import ROOT
from benchmarks.scale import page, plan

PARTS = {
    "cost": ["cost"],
    "compare-local": ["compare", "local"],
    "compare-ray": ["compare", "ray"],
    "hall-local": ["hall", "local"],
    "hall-ray": ["hall", "ray", "--kill-s=5", "--for-s=60"],
    "hall-web": ["hall", "web", "--kill-s=5", "--for-s=60", "--restart"],
    "plan": [],
}
"""Names, and the modules with their arguments; the plan is simulated from the costs that are kept."""


def result_of(name: str, more: list[str]) -> dict[str, Any] | None:
    """Measure a part in a process of its own, show what it prints, and return its last line; None where it failed."""
    module, *arguments = PARTS[name]
    command = [sys.executable, "-m", f"benchmarks.scale.{module}", *arguments, *more]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    lines = done.stdout.splitlines()
    for line in lines:
        if not line.startswith("{"):
            print(line, flush=True)
    # A goal that was missed is a figure like any other.
    if not lines or not lines[-1].startswith("{"):
        print(f"{name} failed with status {done.returncode}; its last figures stay.")
        return None
    return json.loads(lines[-1])


def main() -> int:
    """Do the parts, write, and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}, all")
    parser.add_argument("--take", type=Path, help="a file whose last line is the part's result")
    parser.add_argument("--more", default="", help="arguments for the parts, in place of theirs")
    read = parser.parse_args()
    for name in set(read.parts) - {*PARTS, "all"}:
        parser.error(f"there is no part {name!r}: they are {', '.join(PARTS)}")
    failed, results = False, page.read()
    for name in PARTS if "all" in read.parts else read.parts:
        print(f"\n{name}", flush=True)
        if name == "plan":
            found: dict[str, Any] | None = {"rows": plan.grown(results["cost"])}
        elif read.take:
            found = json.loads(read.take.read_text().splitlines()[-1])
        else:
            found = result_of(name, read.more.split())
        failed = failed or found is None
        if found is not None:
            results[name] = {k: v for k, v in found.items() if name == "cost" or k != "kinds"}
            page.write(results)
    page.write(results)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
