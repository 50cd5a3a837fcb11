"""Runs the programme or some of its parts: ``python -m benchmarks.reliability [PART …]``.

Every part has a process of its own, which is ended with all that it has started when its time is over.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.about import ROOT, commit, machine, now, versions
from benchmarks.reliability import report
from benchmarks.reliability.cards import Measured, Part, card
from benchmarks.reliability.parts import PARTS


def measured(part: Part, n: int, seed: int) -> dict[str, Any]:
    """Measure a part in this process and return its JSON line."""
    about = {"machine": machine(), "date": now(), "commit": commit(), "versions": versions()}
    started = time.perf_counter()
    found = part.measure(n, seed)
    return {**part.judged(found, time.perf_counter() - started), **about}


def apart(part: Part, n: int, seed: int, limit_s: float) -> dict[str, Any]:
    """Measure a part in a process of its own; one that fails or takes too long is not held."""
    started = time.perf_counter()
    asked = [part.name, f"--n={n}", f"--seed={seed}", "--here"]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.reliability", *asked],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit_s)
        why = f"its process ended with status {process.returncode}"
    except subprocess.TimeoutExpired:
        said, why = "", f"it had not ended after {limit_s:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = said.splitlines()
    if lines and lines[-1].startswith("{"):
        return json.loads(lines[-1])
    about = {"machine": machine(), "date": now(), "commit": commit(), "versions": versions()}
    seconds = time.perf_counter() - started
    return {**part.judged(Measured(0, {}, (why,)), seconds), **about}


def main(argv: list[str] | None = None) -> int:
    """Measure, tell, and return 1 if a goal that does not depend on speed was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--nightly", action="store_true", help="large numbers: hours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, help="of every part, in place of its own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="takes a JSON line of every part")
    parser.add_argument("--write", action="store_true", help=f"write {', '.join(report.FILES)}")
    parser.add_argument("--here", action="store_true", help="in this process, one JSON line each")
    arguments = parser.parse_args(argv)
    for name in set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {name!r}: the parts are {', '.join(PARTS)}")
    chosen = [PARTS[name] for name in arguments.parts or PARTS]
    results = [_result(part, arguments) for part in chosen]
    return 0 if all(result["held"] for result in results) else 1


def _result(part: Part, arguments: argparse.Namespace) -> dict[str, Any]:
    n = arguments.n or (part.nightly if arguments.nightly else part.short)
    if arguments.here:
        result = measured(part, n, arguments.seed)
        print(json.dumps(result), flush=True)
        return result
    result = apart(part, n, arguments.seed, part.nightly_s if arguments.nightly else part.short_s)
    print(card(result), flush=True)
    if arguments.json:
        with arguments.json.open("a") as lines:
            lines.write(json.dumps(result) + "\n")
    if arguments.write:
        report.write(result)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
