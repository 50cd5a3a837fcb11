"""All files of an exported run: script, notebook, and the loop's folder where one is needed."""

from __future__ import annotations

import io
import zipfile

from engine.export.folder import folder_files
from engine.export.generation_config import write
from engine.export.notebook import notebook
from engine.export.plan import plan_of
from engine.export.script import script
from engine.export.steps_csv import steps_csv
from engine.trace.json_io import dumps
from engine.trace.records import Trace

SCRIPT = "run.py"
NOTEBOOK = "run.ipynb"
CONFIG = "generation_config.json"
# A fixed date: the same run gives the same archive.
_DATE = (1980, 1, 1, 0, 0, 0)


def export_files(trace: Trace) -> dict[str, str]:
    """Return path -> text of every file of the export.

    Raises:
        ExportError: the run cannot be written as code.
    """
    plan = plan_of(trace)
    folder = {f"{plan.folder_name}/{path}": text for path, text in folder_files(plan).items()}
    return {SCRIPT: script(plan), NOTEBOOK: notebook(plan), **folder}


def everything(trace: Trace) -> dict[str, str]:
    """Return path -> text of all that a run can be taken away as without a picture.

    Raises:
        ExportError: the run cannot be written as code.
    """
    name = f"{trace.strategy}-seed{trace.seed}"
    return {
        **export_files(trace),
        CONFIG: config_of(trace),
        f"{name}.csv": steps_csv(trace),
        f"{name}.json": dumps(trace),
    }


def config_of(trace: Trace) -> str:
    """Return a run's settings as the text of a generation_config.json."""
    given = {name: value for name, value in trace.config.items() if value is not None}
    return write(trace.strategy, given)


def archive(files: dict[str, str]) -> bytes:
    """Return the files as a zip archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for path, text in files.items():
            packed.writestr(zipfile.ZipInfo(path, _DATE), text, zipfile.ZIP_DEFLATED)
    return data.getvalue()
