"""The journal: the messages of runs by unguessable id, for the processes that share a database."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.messages import to_json
from engine.settings import SETTINGS
from playground.storage.database import DATABASE, Database
from playground.storage.run_store import ATTEMPT_STRIDE, RunMessage, RunStart, RunStore, StoredRun

_LOG = logging.getLogger("playground")
_FLUSH_S = 2.0
RESTARTED_MESSAGE = (
    "The server was restarted, which ended this run. What arrived is kept; press Run "
    "to start again."
)
_FINAL_KINDS = ("finish", "fail")


@dataclass(frozen=True)
class Press:
    """One press of Run; another process repeats the run from it if this process dies.

    Attributes:
        name: the page's unguessable id of the press.
        payload: what the page sent.
    """

    name: str
    payload: Mapping[str, Any]


class RunMessages:
    """Numbers the messages of one run and stores them in the database, if there is one.

    Args:
        run_id: the run's id.
        kept: the database store, or None.
        sent: how many messages earlier attempts sent.
        making: number of takeovers before this attempt.
    """

    def __init__(
        self, run_id: str, kept: RunStore | None = None, sent: int = 0, making: int = 0
    ) -> None:
        self.run_id = run_id
        # Each attempt has its own number range: a page may hold messages that were never stored.
        self._next = making * ATTEMPT_STRIDE + sent
        self._kept = kept

    def add(self, message: dict[str, Any]) -> RunMessage:
        """Add run id and sequence number to a message, store it, and return it as JSON."""
        seq, self._next = self._next, self._next + 1
        text = to_json({"run": self.run_id, "seq": seq, **message})
        sent = RunMessage(self.run_id, seq, text, message["kind"] in _FINAL_KINDS)
        self.store(sent)
        return sent

    def store(self, line: RunStart | RunMessage) -> None:
        """Queue a line for the database; a failure never stops the run."""
        if self._kept is None:
            return
        try:
            self._kept.add(line)
        except Exception as error:
            # A run with a missing message is not stored at all: a text with a hole would be
            # silently wrong.
            _LOG.error("a run is not kept for later: %s", type(error).__name__)
            self._kept = None


class Journal:
    """The database copy of the messages of runs; without a database they are in memory only.

    Args:
        kept: the database store, or None.

    Attributes:
        leaving: True while this process shuts down and leaves its unfinished runs to another one.
    """

    def __init__(self, kept: RunStore | None = None) -> None:
        self._kept = kept
        self.leaving = False

    def open(self, run_id: str, press: Press | None = None) -> RunMessages:
        """Start the record of a run.

        Args:
            run_id: the run's id.
            press: the press it came from; None if it cannot be repeated.
        """
        messages = RunMessages(run_id, self._kept)
        if press is not None:
            # NaN is allowed here: only Python reads this back, and the engine rejects it then.
            text = json.dumps(dict(press.payload), separators=(",", ":"))
            messages.store(RunStart(run_id, press.name, text))
        return messages

    def reopen(self, run_id: str, known: StoredRun) -> RunMessages:
        """Continue the record of a stored run that is repeated after a takeover."""
        return RunMessages(run_id, self._kept, len(known.texts), known.making)

    def stored_messages(self, run_id: str) -> list[RunMessage]:
        """Return all messages of a stored run; empty for an unknown run.

        A run without an end whose process died gets a final ``fail`` message.
        """
        found = self.find_stored(run_id)
        if found is None or not found.texts or not found.is_over or found.ended:
            return found.texts if found else []
        failed = {"run": run_id, "seq": found.seq, "kind": "fail", "error": RESTARTED_MESSAGE}
        return [*found.texts, RunMessage(run_id, found.seq, to_json(failed), last=True)]

    def find_stored(self, run_id: str) -> StoredRun | None:
        """Return the stored run after flushing pending writes, or None if the database has none."""
        if self._kept is None:
            return None
        # A writer thread stores messages; runs never wait for the disk, so it may be behind.
        self._kept.flush(_FLUSH_S)
        return self._kept.find(run_id)

    def claim(self, run_id: str, known: StoredRun) -> StoredRun | None:
        """Take over a run whose process died; return it, or None if another process was faster."""
        if self._kept is None or not self._kept.claim(run_id, known.process):
            return None
        return self._kept.find(run_id)

    @property
    def run_store(self) -> RunStore | None:
        """The database store of the runs, None for memory only."""
        return self._kept

    @property
    def backlog_bytes(self) -> int:
        """Bytes waiting to be written to the database."""
        return 0 if self._kept is None else self._kept.backlog_bytes

    def leave(self) -> None:
        """With a database, leave unfinished runs open, so that another process takes them over."""
        self.leaving = self._kept is not None

    def close(self, within_s: float) -> None:
        """Flush within ``within_s`` seconds and mark this process as gone."""
        if self._kept is not None:
            self._kept.flush(within_s)
            self._kept.presence.announce_exit()


def open_journal(database: Database | None) -> Journal:
    """Return a journal stored in ``database``, or in memory only for None."""
    if database is None:
        return Journal()
    return Journal(RunStore(database, SETTINGS.journal_age_s, SETTINGS.max_journal_bytes))


JOURNAL = open_journal(DATABASE)
