"""Background checks of a generation method: the page polls for results and can stop the check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from engine.errors import ParameterError
from engine.sandbox.arguments import check_arguments
from engine.sandbox.method_check import check_method
from engine.sandbox.method_editor import find_own_method
from engine.sandbox.method_lookup import find_method
from engine.sandbox.trust import check_trusted
from playground.jobs.registry import JOBS, JobKind, PageJob, Payload
from playground.shell.visitors import current_session

_LONG_POLL_S = 5.0
"""Seconds that a poll waits for a new result."""


def poll_check(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a check that its page does not have yet.

    The first call starts the check.

    Args:
        payload: ``press``, the id of the check; ``name`` and ``arguments`` of the method; ``known``,
            how many results the page has.

    Returns:
        ``checks``, each with ``what``, ``result`` and ``told``; ``over``; ``error``, one sentence
            or "".

    Raises:
        EngineError: The method may not run, or does not accept an argument.
    """
    press, known = str(payload.get("press", ""))[:64], payload.get("known", 0)
    if type(known) is not int or known < 0:
        raise ParameterError("known", known, "it must be a whole number from 0")
    job = JOBS.find(press) or _start_check(press, payload.get("name"), payload.get("arguments"))
    job.sessions.add(current_session())
    news, over = job.wait_for_messages(known, _LONG_POLL_S)
    checks = [message for message in news if "error" not in message]
    return {"checks": checks, "over": over, "error": news[-1].get("error", "") if news else ""}


def _start_check(press: str, name: Any, arguments: Any) -> PageJob:
    """Start a check of a method that was written on this machine."""
    folder, found = find_own_method(name), find_method(name)
    check_trusted(found)
    if arguments is not None and not isinstance(arguments, dict):
        raise ParameterError("arguments", arguments, "it must be an object of names and values")
    given = check_arguments(found.method.arguments, arguments or {})
    return JOBS.start(_CHECK, press, {"folder": folder, "arguments": given})


def _run_checks(job: PageJob, payload: Payload) -> Iterator[dict[str, Any]]:
    for check in check_method(**payload, cancelled=job.cancelled):
        yield asdict(check)


# One check at a time: each runs the method four times, two processes at once.
_CHECK = JobKind("method_check", _run_checks, slots=1)
