"""Run the exported code of a trace in a new process and compare its tokens."""

from __future__ import annotations

import ast
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.errors import BusyError, ExportError, ParameterError
from engine.export.files import PIPELINE, SCRIPT, export_files, pipeline_files
from engine.export.media_code import write_media_file
from engine.export.plan import plan_export
from engine.export.script import IDS_PREFIX
from engine.export.short_script import fixed_threshold_lines
from engine.messages import Message
from engine.run.request import check_request, request_from_trace
from engine.sandbox.method_templates import list_templates
from engine.settings import SETTINGS, child_environment
from engine.temporary_folder import TemporaryFolder
from engine.trace.records import Trace

ROOT = Path(__file__).resolve().parents[2]
_POLL_S = 0.1
_NICENESS, _MAX_NICENESS = 10, 19
_CHECK_LOCK = threading.Lock()
SCIKIT_LEARN = "sklearn"
_HIDE_PACKAGE = (
    "import runpy, sys; sys.modules[sys.argv[1]] = None; "
    'runpy.run_path(sys.argv[2], run_name="__main__")'
)


@dataclass(frozen=True)
class Verification:
    """The result of running the exported code."""

    equal: bool
    seconds: float
    message: str
    """The result in one sentence."""
    printed: tuple[tuple[int, ...], ...] = ()


FORMS = {"generate": SCRIPT, "pipeline": PIPELINE}
"""Form of the code -> name of the script."""


def verify_export(
    trace: Trace, cancelled: Callable[[], bool] = lambda: False, form: str = "generate"
) -> Verification:
    """Run the exported script in a separate process and compare its tokens with the trace.

    Args:
        trace: the run; its steps are not needed.
        cancelled: called ten times a second; True stops the check.
        form: one of FORMS.

    Raises:
        ExportError: the run cannot be written as code, was stopped early, or the check was stopped.
        ParameterError: the form does not exist, or the run exceeds this deployment's limits.
        BusyError: another check is running.
    """
    if form not in FORMS:
        raise ParameterError(
            "form", form, Message("it must be one of {choices}", choices=", ".join(FORMS))
        )
    _refuse_unfinished(trace)
    # Validate like a request: this deployment runs code only for runs it would decode itself.
    check_request(request_from_trace(trace))
    files = pipeline_files(trace) if form == "pipeline" else export_files(trace)
    if not _CHECK_LOCK.acquire(blocking=False):
        raise BusyError("Another check is running; try again in a moment.")
    try:
        with TemporaryFolder("export") as place:
            for path, text in files.items():
                target = Path(place) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
            plan = plan_export(trace)
            write_media_file(plan, place)
            check = partial(_check_script, trace, Path(place), FORMS[form], cancelled)
            found = check()
            # transformers drafts otherwise where scikit-learn is installed, unless the code says not to.
            if found.equal and fixed_threshold_lines(plan) and has_scikit_learn():
                found = _join_checks(found, check(hidden=SCIKIT_LEARN))
    finally:
        _CHECK_LOCK.release()
    return found


def has_scikit_learn() -> bool:
    """Return whether exported code finds scikit-learn when it is checked here."""
    return importlib.util.find_spec(SCIKIT_LEARN) is not None


def _check_script(
    trace: Trace, place: Path, script: str, cancelled: Callable[[], bool], hidden: str = ""
) -> Verification:
    started = time.perf_counter()
    code, said, failed = _run_script(place, script, cancelled, hidden)
    seconds = round(time.perf_counter() - started, 1)
    if code != 0:
        failure = Message("The code stopped with an error: {last}", last=_last_line(failed))
        return Verification(False, seconds, failure)
    return compare_tokens(trace, parse_printed_ids(said), seconds)


def _join_checks(found: Verification, without: Verification) -> Verification:
    """Return the result of a check with scikit-learn and of one without it."""
    template = (
        "With and without scikit-learn: {result}"
        if without.equal
        else "Without scikit-learn: {result}"
    )
    return Verification(
        without.equal,
        round(found.seconds + without.seconds, 1),
        Message(template, result=without.message),
        without.printed,
    )


def compare_tokens(trace: Trace, printed: list[list[int]], seconds: float) -> Verification:
    """Compare printed token ids with the outputs of the run."""
    wanted = [list(output.token_ids) for output in trace.outputs]
    rows = tuple(tuple(row) for row in printed)
    if printed == wanted:
        count = sum(map(len, wanted))
        template = (
            "All {count} tokens are equal."
            if len(wanted) == 1
            else "All {count} tokens in {wanted} sequences are equal."
        )
        shown = {"count": count} if len(wanted) == 1 else {"count": count, "wanted": len(wanted)}
        return Verification(True, seconds, Message(template, **shown), rows)
    if len(printed) != len(wanted):
        message = Message(
            "The code printed {printed} sequences, the run has {wanted}.",
            printed=len(printed),
            wanted=len(wanted),
        )
        return Verification(False, seconds, message, rows)
    which = next(
        i for i, pair in enumerate(zip(wanted, printed, strict=True)) if pair[0] != pair[1]
    )
    ours, theirs = wanted[which], printed[which]
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    at = min(len(ours), len(theirs)) if at is None else at
    ended = "the end" if at >= len(theirs) else Message("id {token}", token=theirs[at])
    own = "the end" if at >= len(ours) else Message("id {token}", token=ours[at])
    values = {"at": at + 1, "own": own, "ended": ended}
    if len(wanted) == 1:
        message = Message(
            "They differ from token {at} on: the run has {own}, the code {ended}.", **values
        )
    else:
        message = Message(
            "Sequence {which} differs from token {at} on: the run has {own}, the code {ended}.",
            which=which + 1,
            **values,
        )
    return Verification(False, seconds, message, rows)


def parse_printed_ids(said: str) -> list[list[int]]:
    """Return the lists of token ids in the output of the code."""
    lines = [line for line in said.splitlines() if line.startswith(IDS_PREFIX + "[")]
    return [list(ast.literal_eval(line.removeprefix(IDS_PREFIX))) for line in lines]


def _refuse_unfinished(trace: Trace) -> None:
    if not trace.outputs:
        raise ExportError("The run has no output to compare with.")
    if any(output.finish_reason in ("cancelled", "error") for output in trace.outputs):
        raise ExportError("The run was stopped before its end, so there is nothing to compare.")
    # Look up the name instead of trusting the trace, which may come from anyone.
    if trace.method is not None and trace.method.name not in list_templates():
        raise ExportError(
            "A method that is not built in runs only in the sandbox, so its script is not run here."
        )
    if SETTINGS.public and any(
        info is not None and info.id.startswith("/") for info in (trace.model, trace.assistant)
    ):
        raise ExportError("Folders are not read here, so this run cannot be checked.")


def _run_script(
    place: Path, script: str, cancelled: Callable[[], bool], hidden: str = ""
) -> tuple[int, str, str]:
    """Run a script; return its exit status, standard output and standard error.

    Args:
        place: folder of the script, its working files and its output.
        script: its name.
        cancelled: see ``verify_export``.
        hidden: a package that the script is not to find.
    """
    command = [str(place / script)]
    if hidden:
        command = ["-c", _HIDE_PACKAGE, hidden, *command]
    home = place / "modules"
    # Exported code must not see the server's tokens and passwords.
    environ = child_environment(secrets=False)
    environ |= {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(home)}
    environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    # Files instead of pipes: nothing reads while the script runs, and a full pipe would block it.
    with (place / "out.txt").open("w+") as out, (place / "err.txt").open("w+") as err:
        process = subprocess.Popen(
            # -I: neither this project nor the user's folders are importable.
            [sys.executable, "-I", *command],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        with suppress(ProcessLookupError):
            # Decoding has priority over checks.
            os.setpriority(os.PRIO_PROCESS, process.pid, min(_MAX_NICENESS, os.nice(0) + _NICENESS))
        deadline = time.monotonic() + SETTINGS.max_check_s
        try:
            while process.poll() is None:
                if cancelled():
                    raise ExportError("The check was stopped before the code had ended.")
                if time.monotonic() > deadline:
                    limit = Message(
                        "{max_check_s} seconds", max_check_s=f"{SETTINGS.max_check_s:g}"
                    )
                    raise ExportError(
                        "The code had not ended after {limit}, the most it may take here.",
                        limit=limit,
                    )
                time.sleep(_POLL_S)
        finally:
            # The script has its own session, so this also ends processes that it started.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        err.seek(0)
        return process.returncode, out.read(), err.read()


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing."
