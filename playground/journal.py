"""The messages of recent runs, by unguessable run id: those of late in memory, earlier ones on disk."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from engine.run.work import Work
from engine.settings import SETTINGS
from playground.journal_file import JournalFile, Sent

_LOG = logging.getLogger("playground")
_KEPT_RUNS = 32 + SETTINGS.max_waiting_runs
"""A run in line has to be there when somebody stops it."""
_FLUSH_S = 2.0
STARTED_ANEW = (
    "This ended when the server was started anew; what had come is kept. Press Run to start again."
)
_LAST = ("finish", "fail")


class Messages:
    """What was sent of one run, each as JSON."""

    def __init__(self, run_id: str, file: JournalFile | None = None) -> None:
        self.run_id = run_id
        self.texts: list[str] = []
        self._file = file

    def add(self, message: dict[str, Any]) -> str:
        """Give a message its run and its number and keep it; return it as JSON."""
        numbered = {"run": self.run_id, "seq": len(self.texts), **message}
        text = json.dumps(numbered, allow_nan=False, separators=(",", ":"))
        line = Sent(self.run_id, len(self.texts), text, message["kind"] in _LAST)
        self.texts.append(text)
        if self._file is not None:
            try:
                self._file.add(line)
            except Exception as error:  # the run goes on, whatever becomes of its copy
                _LOG.error("a run is not kept for later: %s", type(error).__name__)
                self._file = None
        return text


class Journal:
    """The messages of recent runs.

    Args:
        file: where they are kept besides; None for nowhere.
    """

    def __init__(self, file: JournalFile | None = None) -> None:
        self._file = file
        self._runs: OrderedDict[str, tuple[Work, Messages]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, run: Work) -> Messages:
        """Start the record of a run and return its messages."""
        messages = Messages(run.run_id, self._file)
        with self._lock:
            self._runs[run.run_id] = (run, messages)
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
        return messages

    def messages(self, run_id: str) -> list[str]:
        """Return what was sent so far, each as JSON, empty for an unknown run."""
        with self._lock:
            known = self._runs.get(run_id)
        if known is not None:
            return list(known[1].texts)
        if self._file is None:
            return []
        self._file.flush(_FLUSH_S)
        texts, over = self._file.read(run_id)
        if not texts or not over or json.loads(texts[-1])["kind"] in _LAST:
            return texts
        failed = {"run": run_id, "seq": len(texts), "kind": "fail", "error": STARTED_ANEW}
        return [*texts, json.dumps(failed, separators=(",", ":"))]

    def cancel(self, run_id: str) -> None:
        """Stop a run within one step; unknown ids are ignored."""
        with self._lock:
            known = self._runs.get(run_id)
        if known is not None:
            known[0].cancel()

    def close(self, within_s: float) -> None:
        """Have everything written."""
        if self._file is not None:
            self._file.flush(within_s)


def journal_of(path: str) -> Journal:
    """Return the journal that is kept in a file, in memory alone where the path is empty."""
    if not path:
        return Journal()
    where = Path(path).expanduser()
    return Journal(JournalFile(where, SETTINGS.journal_age_s, SETTINGS.max_journal_bytes))


JOURNAL = journal_of(SETTINGS.journal)
