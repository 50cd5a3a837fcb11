"""Background checks of a generation method: the page polls for results and can stop the check."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.errors import Cancelled, ParameterError
from engine.sandbox.arguments import check_arguments
from engine.sandbox.method_check import check_method
from engine.sandbox.method_editor import find_own_method
from engine.sandbox.method_lookup import find_method
from engine.sandbox.trust import check_trusted
from engine.settings import SETTINGS
from playground.shell.guard import error_message

_CHECK_SLOT = threading.Semaphore(1)
"""One check at a time: each runs the method four times, two processes at once."""
_POLL_S = 0.1
_LONG_POLL_S = 5.0
"""Seconds that a poll waits for a new result."""
_MAX_CHECKS = 16
_CHECKS: dict[str, _MethodCheck] = {}
"""Checks by the unguessable id that the page generated."""
STOPPED = "Stopped."


class _MethodCheck:
    """One check in a background thread, with its results so far."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name, self.arguments = name, arguments
        self.found: list[dict[str, Any]] = []
        self.error = ""
        self.over = False
        self.cancelled = threading.Event()
        self.news = threading.Condition()
        self._away: threading.Timer | None = None
        self.keep_alive()
        threading.Thread(target=self._run_checks, name="check", daemon=True).start()

    def keep_alive(self) -> None:
        """Restart the timer that stops a check whose page has disappeared."""
        if self._away is not None:
            self._away.cancel()
        self._away = threading.Timer(SETTINGS.away_s, self.cancelled.set)
        self._away.daemon = True
        self._away.start()

    def _run_checks(self) -> None:
        try:
            while not _CHECK_SLOT.acquire(timeout=_POLL_S):
                if self.cancelled.is_set():
                    raise Cancelled
            try:
                checks = check_method(
                    find_own_method(self.name), arguments=self.arguments, cancelled=self.cancelled
                )
                for check in checks:
                    self._publish_result(asdict(check))
            finally:
                _CHECK_SLOT.release()
        except Cancelled:
            self.error = STOPPED
        except BaseException as error:  # a page that polls must learn of every failure
            self.error = error_message(error)
        finally:
            if self._away is not None:
                self._away.cancel()
            self._publish_result(None)

    def _publish_result(self, check: dict[str, Any] | None) -> None:
        with self.news:
            if check is None:
                self.over = True
            else:
                self.found.append(check)
            self.news.notify_all()


def poll_check(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a check that its page does not have yet.

    The first call starts the check.

    Args:
        asked: ``press``, the id of the check; ``name`` and ``arguments`` of the method; ``known``,
            how many results the page has.

    Returns:
        ``checks``, each with ``what``, ``result`` and ``told``; ``over``; ``error``, one sentence
            or "".

    Raises:
        EngineError: The method may not run, or does not accept an argument.
    """
    press, known = str(asked.get("press", ""))[:64], asked.get("known", 0)
    if type(known) is not int or known < 0:
        raise ParameterError("known", known, "it must be a whole number from 0")
    check = _CHECKS.get(press)
    if check is None:
        check = _CHECKS[press] = _start_check(asked.get("name"), asked.get("arguments"))
        while len(_CHECKS) > _MAX_CHECKS:
            _CHECKS.pop(next(iter(_CHECKS))).cancelled.set()
    check.keep_alive()
    with check.news:
        check.news.wait_for(lambda: check.over or len(check.found) > known, _LONG_POLL_S)
        told = {"checks": check.found[known:], "over": check.over, "error": check.error}
    if check.over:
        _CHECKS.pop(press, None)
    return told


def stop_check(press: str) -> None:
    """Stop a check; an unknown id is ignored."""
    check = _CHECKS.get(press)
    if check is not None:
        check.cancelled.set()


def _start_check(name: Any, arguments: Any) -> _MethodCheck:
    """Start a check of a method that was written on this machine."""
    find_own_method(name)
    found = find_method(name)
    check_trusted(found)
    if arguments is not None and not isinstance(arguments, dict):
        raise ParameterError("arguments", arguments, "it must be an object of names and values")
    return _MethodCheck(name, check_arguments(found.method.arguments, arguments or {}))
