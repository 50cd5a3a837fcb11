"""Exported code, written and run in a fresh process to which this project is closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.export.files import SCRIPT, export_files
from engine.export.verify import parse_printed_ids
from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
_RUNNER = """
import contextlib, io, json, os, pathlib, runpy, sys, traceback
class Closed:  # the project itself must not be needed
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('engine', 'visualizers', 'playground', 'gradio'):
            raise ImportError(name + ' is closed here')
sys.meta_path.insert(0, Closed())
said, shortly = {}, sys.argv[1] == 'short'
for path in sys.argv[2:]:
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            names = runpy.run_path(path, run_name='__main__')
        said[path] = out.getvalue()
    except BaseException:
        said[path] = traceback.format_exc()
        continue
    if not shortly:
        continue
    if 'in_short' not in names:
        said[path + ' short'] = None
        continue
    home, out = os.getcwd(), io.StringIO()
    try:
        # Models of the repository are named from there, a loop's folder from beside the script.
        os.chdir(pathlib.Path(path).parent)
        os.symlink(pathlib.Path(home) / 'assets', 'assets')
        with contextlib.redirect_stdout(out):
            names['in_short']()
        said[path + ' short'] = out.getvalue()
    except BaseException:
        said[path + ' short'] = traceback.format_exc()
    os.chdir(home)
print(json.dumps(said))
"""


def written(trace: Any, folder: Path, script: str = SCRIPT) -> Path:
    """Write the export of a run; return one of its scripts."""
    folder.mkdir()
    for path, text in export_files(trace).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder / script


def run_scripts(
    scripts: list[Path], place: Path, *, in_short: bool = True
) -> dict[str, str | None]:
    """Run scripts, one after the other, in one fresh process.

    Args:
        scripts: what is run.
        place: an empty folder for what transformers keeps.
        in_short: whether their short runs are run, too.

    Returns:
        Path -> what it printed, and path + " short" -> what its short run printed, None where it has none.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", _RUNNER, "short" if in_short else "", *map(str, scripts)],
        cwd=ROOT,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_MODULES_CACHE": str(place / "modules"),
            "HF_HOME": str(place / "home"),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run, the script that it exports, and what this printed.

    ``shortly`` is what the run in short printed, None where the script has none.
    """

    trace: Any
    script: Path
    said: str
    shortly: str | None

    def check_printed(self) -> None:
        """Assert that the script printed the recorded tokens."""
        recorded = [list(output.token_ids) for output in self.trace.outputs]
        assert parse_printed_ids(self.said) == recorded, self.said


def run_exports(traces: Sequence[Any], place: Path, script: str = SCRIPT) -> list[ExportedRun]:
    """Run one of the exported scripts of each run in one fresh process.

    Args:
        traces: the runs.
        place: an empty folder.
        script: which of the exported files is run.
    """
    scripts = [written(trace, place / str(i), script) for i, trace in enumerate(traces)]
    said = run_scripts(scripts, place)
    return [
        ExportedRun(trace, path, str(said[str(path)]), said.get(f"{path} short"))
        for trace, path in zip(traces, scripts, strict=True)
    ]
