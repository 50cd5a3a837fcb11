"""Checks of a method that go on beside the page: each is told as soon as it is known, and all can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.errors import Cancelled, ParameterError
from engine.methods.arguments import checked_arguments
from engine.methods.checking import check_method
from engine.methods.editing import own_method
from engine.methods.finding import find_method
from engine.methods.trust import check_trusted
from engine.settings import SETTINGS
from playground.guard import sentence

_AT_WORK = threading.Semaphore(1)
"""Each check runs the method four times, two processes at a time."""
_POLL_S = 0.1
_HOLD_S = 5.0
"""How long a question waits for what is new."""
_KEPT = 16
_CHECKS: dict[str, _Checking] = {}
"""By the unguessable name that its page gave it."""
STOPPED = "Stopped."


class _Checking:
    """One check: what it has found so far."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name, self.arguments = name, arguments
        self.found: list[dict[str, Any]] = []
        self.error = ""
        self.over = False
        self.cancelled = threading.Event()
        self.news = threading.Condition()
        self._away: threading.Timer | None = None
        self.heard()
        threading.Thread(target=self._work, name="check", daemon=True).start()

    def heard(self) -> None:
        """Somebody listens: without a word for long it is stopped."""
        if self._away is not None:
            self._away.cancel()
        self._away = threading.Timer(SETTINGS.away_s, self.cancelled.set)
        self._away.daemon = True
        self._away.start()

    def _work(self) -> None:
        try:
            while not _AT_WORK.acquire(timeout=_POLL_S):
                if self.cancelled.is_set():
                    raise Cancelled
            try:
                checks = check_method(
                    own_method(self.name), arguments=self.arguments, cancelled=self.cancelled
                )
                for check in checks:
                    self._tell(asdict(check))
            finally:
                _AT_WORK.release()
        except Cancelled:
            self.error = STOPPED
        except BaseException as error:
            self.error = sentence(error)
        finally:
            if self._away is not None:
                self._away.cancel()
            self._tell(None)

    def _tell(self, check: dict[str, Any] | None) -> None:
        with self.news:
            if check is None:
                self.over = True
            else:
                self.found.append(check)
            self.news.notify_all()


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a check has found beyond what its page knows; the first question begins it.

    Args:
        asked: ``press``, its name; ``name`` and ``arguments`` of the method; ``known``, how many checks the page has.

    Returns:
        ``checks``, each with ``what``, ``result`` and ``told``; ``over``; ``error``, one sentence, "" for none.

    Raises:
        EngineError: the method may not run, or an argument is not one of its.
    """
    press, known = str(asked.get("press", ""))[:64], asked.get("known", 0)
    if type(known) is not int or known < 0:
        raise ParameterError("known", known, "it must be a whole number from 0")
    check = _CHECKS.get(press)
    if check is None:
        check = _CHECKS[press] = _begun(asked.get("name"), asked.get("arguments"))
        while len(_CHECKS) > _KEPT:
            _CHECKS.pop(next(iter(_CHECKS))).cancelled.set()
    check.heard()
    with check.news:
        check.news.wait_for(lambda: check.over or len(check.found) > known, _HOLD_S)
        told = {"checks": check.found[known:], "over": check.over, "error": check.error}
    if check.over:
        _CHECKS.pop(press, None)
    return told


def stop(press: str) -> None:
    """Stop a check; nothing happens where there is none of this name."""
    check = _CHECKS.get(press)
    if check is not None:
        check.cancelled.set()


def _begun(name: Any, arguments: Any) -> _Checking:
    """Begin a check of what somebody has made here."""
    own_method(name)
    found = find_method(name)
    check_trusted(found)
    if arguments is not None and not isinstance(arguments, dict):
        raise ParameterError("arguments", arguments, "it must be an object of names and values")
    return _Checking(name, checked_arguments(found.method.arguments, arguments or {}))
