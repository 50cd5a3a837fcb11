"""The files of an exported run: script, notebook and, if needed, the folder of its loop."""

from __future__ import annotations

import io
import zipfile

from engine.export.folder import folder_files
from engine.export.generation_config import format_config
from engine.export.media_code import check_media_exportable
from engine.export.notebook import notebook_json
from engine.export.pipeline import pipeline_script, unsupported_reason
from engine.export.plan import plan_export
from engine.export.script import script_text
from engine.export.steps_csv import steps_csv
from engine.export.stream_script import stream_script
from engine.trace.json_io import dumps
from engine.trace.records import Trace
from engine.trace.served_checks import require_local_run

SCRIPT = "run.py"
PIPELINE = "run_pipeline.py"
STREAM = "run_stream.py"
NOTEBOOK = "run.ipynb"
CONFIG = "generation_config.json"
# A fixed date: the same run gives the same archive.
_ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)


def export_files(trace: Trace) -> dict[str, str]:
    """Return path -> text of every file of the export; includes PIPELINE if a pipeline can run it.

    Raises:
        ExportError: the run cannot be written as code.
    """
    plan = plan_export(trace)
    check_media_exportable(plan)
    folder = {f"{plan.folder_name}/{path}": text for path, text in folder_files(plan).items()}
    files = {SCRIPT: script_text(plan), NOTEBOOK: notebook_json(plan), **folder}
    return files if unsupported_reason(plan) else {**files, PIPELINE: pipeline_script(plan)}


def stream_files(trace: Trace) -> dict[str, str]:
    """Return path -> text of the script that prints the run's text while it is written.

    Raises:
        ExportError: the run cannot be written as code, or cannot be streamed.
    """
    return {STREAM: stream_script(plan_export(trace))}


def pipeline_files(trace: Trace) -> dict[str, str]:
    """Return path -> text of the files of the run as a pipeline.

    Raises:
        ExportError: the run cannot be written as code or as a pipeline.
    """
    plan = plan_export(trace)
    folder = {f"{plan.folder_name}/{path}": text for path, text in folder_files(plan).items()}
    return {PIPELINE: pipeline_script(plan), **folder}


def pipeline_refusal(trace: Trace) -> str | None:
    """Return the reason why a run cannot be a pipeline; None if it can.

    Raises:
        ExportError: the run cannot be written as code.
    """
    return unsupported_reason(plan_export(trace))


def all_files(trace: Trace) -> dict[str, str]:
    """Return path -> text of all exports of a run except images: code, settings, table and trace.

    Raises:
        ExportError: the run cannot be written as code.
    """
    name = f"{trace.strategy}-seed{trace.seed}"
    return {
        **export_files(trace),
        CONFIG: generation_config_text(trace),
        f"{name}.csv": steps_csv(trace),
        f"{name}.json": dumps(trace),
    }


def generation_config_text(trace: Trace) -> str:
    """Return a run's settings as the text of a generation_config.json file."""
    require_local_run(trace)
    given = {name: value for name, value in trace.config.items() if value is not None}
    return format_config(trace.strategy, given)


def zip_files(files: dict[str, str]) -> bytes:
    """Return the files as a zip archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for path, text in files.items():
            packed.writestr(zipfile.ZipInfo(path, _ARCHIVE_DATE), text, zipfile.ZIP_DEFLATED)
    return data.getvalue()
