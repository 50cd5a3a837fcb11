"""The messages of recent runs, by unguessable run id: those of late in memory, earlier ones in a database."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.run.work import Work
from engine.settings import SETTINGS
from playground.kept.database import DATABASE, Database
from playground.kept.runs import MAKING, Begun, KeptRuns, Sent, WrittenRun

_LOG = logging.getLogger("playground")
_KEPT_RUNS = 32 + SETTINGS.max_waiting_runs
"""A run in line has to be there when somebody stops it."""
_FLUSH_S = 2.0
STARTED_ANEW = (
    "This ended when the server was started anew; what had come is kept. Press Run to start again."
)
_LAST = ("finish", "fail")


@dataclass(frozen=True)
class Press:
    """What a page asked for: a run of it is made again where its process is gone.

    Attributes:
        name: unguessable, the page's own.
        asked: what the page sent.
    """

    name: str
    asked: Mapping[str, Any]


class Messages:
    """What was sent of one run, each as JSON.

    Args:
        run_id: the run.
        kept: where they are kept besides; None for nowhere.
        texts: what there is of it already.
        making: how often it was made again.
    """

    def __init__(
        self,
        run_id: str,
        kept: KeptRuns | None = None,
        texts: list[str] | None = None,
        making: int = 0,
    ) -> None:
        self.run_id, self.texts = run_id, list(texts or ())
        self._first = making * MAKING
        self._kept = kept

    def add(self, message: dict[str, Any]) -> str:
        """Give a message its run and its number and keep it; return it as JSON."""
        seq = self._first + len(self.texts)
        text = _text({"run": self.run_id, "seq": seq, **message})
        self.texts.append(text)
        self.keep(Sent(self.run_id, seq, text, message["kind"] in _LAST))
        return text

    def keep(self, line: Begun | Sent) -> None:
        """Have something of the run written down; whatever becomes of it, the run goes on."""
        if self._kept is None:
            return
        try:
            self._kept.add(line)
        except Exception as error:
            _LOG.error("a run is not kept for later: %s", type(error).__name__)
            self._kept = None


class Journal:
    """The messages of recent runs.

    Args:
        kept: where they are kept besides; None for nowhere.

    Attributes:
        leaving: whether this process ends, and another one will go on with what it has not ended.
    """

    def __init__(self, kept: KeptRuns | None = None) -> None:
        self._kept = kept
        self.leaving = False
        self._runs: OrderedDict[str, tuple[Work, Messages]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, run: Work, press: Press | None = None) -> Messages:
        """Start the record of a run and return its messages.

        Args:
            run: it.
            press: what makes it again.
        """
        messages = Messages(run.run_id, self._kept)
        if press is not None:
            # Python alone reads it again, and what is refused for not being a number is kept until it is.
            asked = json.dumps(dict(press.asked), separators=(",", ":"))
            messages.keep(Begun(run.run_id, press.name, asked))
        self._note(run, messages)
        return messages

    def reopen(self, run: Work, known: WrittenRun, run_id: str) -> Messages:
        """Go on with the record of a run that is made again.

        Args:
            run: what makes it.
            known: what there is of it.
            run_id: what it has been called from its beginning.
        """
        messages = Messages(run_id, self._kept, known.texts, known.making)
        self._note(run, messages)
        return messages

    def _note(self, run: Work, messages: Messages) -> None:
        with self._lock:
            self._runs[messages.run_id] = (run, messages)
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)

    def messages(self, run_id: str) -> list[str]:
        """Return what was sent so far, each as JSON, empty for an unknown run."""
        with self._lock:
            known = self._runs.get(run_id)
        if known is not None:
            return list(known[1].texts)
        found = self.kept(run_id)
        if found is None or not found.texts or not found.over or found.ended:
            return found.texts if found else []
        failed = {"run": run_id, "seq": found.seq, "kind": "fail", "error": STARTED_ANEW}
        return [*found.texts, _text(failed)]

    def kept(self, run_id: str) -> WrittenRun | None:
        """Return what is written down of a run, None for one that is not known there."""
        if self._kept is None:
            return None
        self._kept.flush(_FLUSH_S)
        return self._kept.find(run_id)

    def claim(self, run_id: str, known: WrittenRun) -> WrittenRun | None:
        """Take over a run whose process is gone; return what there is of it, None where somebody else has."""
        if self._kept is None or not self._kept.claim(run_id, known.process):
            return None
        return self._kept.find(run_id)

    def has(self, run_id: str) -> bool:
        """Return whether a run is, or was lately, this process's own."""
        with self._lock:
            return run_id in self._runs

    def cancel(self, run_id: str) -> None:
        """Stop a run within one step; unknown ids are ignored."""
        with self._lock:
            known = self._runs.get(run_id)
        if known is not None:
            known[0].cancel()

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait to be written."""
        return 0 if self._kept is None else self._kept.backlog_bytes

    def leave(self) -> None:
        """Let what can be made again have no end here, where another process can know of it."""
        self.leaving = self._kept is not None

    def close(self, within_s: float) -> None:
        """Have everything written, and let others go on with what has not ended."""
        if self._kept is not None:
            self._kept.flush(within_s)
            self._kept.presence.leave()


def _text(message: dict[str, Any]) -> str:
    return json.dumps(message, allow_nan=False, separators=(",", ":"))


def journal_of(database: Database | None) -> Journal:
    """Return the journal that is kept in a database, in memory alone where there is none."""
    if database is None:
        return Journal()
    return Journal(KeptRuns(database, SETTINGS.journal_age_s, SETTINGS.max_journal_bytes))


JOURNAL = journal_of(DATABASE)
