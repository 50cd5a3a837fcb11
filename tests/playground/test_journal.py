"""What is kept of runs: in memory, on disk, and after a server was started anew."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa

from engine import DecodeRequest
from playground.runs import stream as streaming
from playground.runs.stream import run_state
from playground.storage import journal, run_store
from playground.storage.database import Database, open_database
from playground.storage.journal import RESTARTED_MESSAGE, Journal
from playground.storage.run_store import ATTEMPT_STRIDE, RunMessage, RunStart, RunStore
from playground.storage.tables import MESSAGES, PROCESSES
from tests.helpers.jobs import read_run
from tests.helpers.patience import PATIENCE_S, comes_true

REQUEST = DecodeRequest("greedy", prompt="Once upon", params={"max_new_tokens": 3})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept" / "journal.db"


def file_at(path, age_s=3600.0, most_bytes=1_000_000, process="one"):
    return RunStore(Database(str(path), process), age_s, most_bytes)


def read(file, run):
    """Return the messages of a run, and whether nothing comes after them."""
    found = file.find(run)
    return ([], True) if found is None else (found.texts, found.is_over)


def filled(file, run, count, ended=True, text="{}"):
    """Write messages of a run."""
    for seq in range(count):
        file.add(RunMessage(run, seq, text, ended and seq == count - 1))
    assert file.flush(PATIENCE_S)


def messages_of(state):
    return json.loads(state)["messages"]


def test_a_run_is_read_back_whole_by_a_later_server(path, monkeypatch):
    monkeypatch.setattr(streaming, "JOURNAL", Journal(file_at(path)))
    sent = [json.loads(text) for text in read_run(REQUEST)]
    streaming.JOURNAL.close(PATIENCE_S)
    monkeypatch.setattr(streaming, "JOURNAL", Journal(file_at(path, process="another")))
    numbered = [message for message in sent if "seq" in message]
    assert messages_of(run_state(sent[0]["run"])) == numbered
    assert numbered[-1]["kind"] == "finish"


def test_a_run_that_a_server_did_not_end_is_said_to_have_ended(path):
    own = Journal(file_at(path))
    messages = own.open("r")
    messages.add({"kind": "start"})
    messages.add({"kind": "delta"})
    assert own._kept.flush(PATIENCE_S)
    other = Journal(file_at(path, process="another"))
    assert [json.loads(t)["kind"] for t in other.stored_messages("r")] == ["start", "delta"]
    own.close(PATIENCE_S)
    *_, last = [json.loads(text) for text in other.stored_messages("r")]
    assert last == {"run": "r", "seq": 2, "kind": "fail", "error": RESTARTED_MESSAGE}


def test_a_run_of_which_a_message_is_missing_is_not_shown(path):
    file = file_at(path)
    file.add(RunMessage("r", 0, "{}", False))
    file.add(RunMessage("r", 2, "{}", True))
    assert file.flush(PATIENCE_S)
    assert read(file, "r") == ([], True)


def test_nobody_else_reads_the_file(path):
    filled(file_at(path), "r", 1)
    for found in (path, *path.parent.glob("journal.db-*")):
        assert stat.S_IMODE(found.stat().st_mode) == 0o600, found
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_old_goes(path, monkeypatch):
    file = file_at(path, age_s=100.0)
    filled(file, "old", 2)
    now = run_store.time.time() + 101
    monkeypatch.setattr(run_store.time, "time", lambda: now)
    assert read(file, "old") == ([], True)
    later = file_at(path, age_s=100.0)
    filled(later, "new", 1)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(f"SELECT DISTINCT run FROM {MESSAGES.name}").fetchall() == [("new",)]


def test_the_oldest_make_room(path):
    file = file_at(path, most_bytes=100_000)
    for number in range(40):
        filled(file, f"r{number:02d}", 1, text="x" * 10_000)
    kept = [n for n in range(40) if read(file, f"r{n:02d}")[0]]
    assert kept == list(range(40 - len(kept), 40))
    assert 9 <= len(kept) <= 11
    assert path.stat().st_size < 300_000


def test_a_damaged_file_is_begun_again(path):
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 1000)
    file = file_at(path)
    filled(file, "r", 2)
    assert read(file, "r") == (["{}", "{}"], True)


def test_a_file_of_another_form_is_begun_again(path):
    filled(file_at(path), "before", 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
    file = file_at(path)
    filled(file, "r", 1)
    assert read(file, "r") == (["{}"], True)
    assert read(file, "before") == ([], True)


def test_a_run_is_taken_over_once_and_its_first_process_writes_no_more_of_it(path):
    first = file_at(path)
    first.add(RunStart("r", "p", "{}"))
    first.add(RunMessage("r", 0, '{"a":0}', False))
    assert first.flush(PATIENCE_S)
    others = [file_at(path, process=f"other {n}") for n in range(8)]
    assert not others[0].claim("r", "one"), "its process is there"
    first.presence.announce_exit()
    with ThreadPoolExecutor(len(others)) as pool:
        claimed = list(pool.map(lambda file: file.claim("r", "one"), others))
    assert sum(claimed) == 1
    first.add(RunMessage("r", 1, "late", True))
    assert first.flush(PATIENCE_S)
    other = others[claimed.index(True)]
    other.add(RunMessage("r", ATTEMPT_STRIDE + 1, '{"a":1}', True))
    assert other.flush(PATIENCE_S)
    found = first.find("r")
    assert (found.texts, found.ended, found.making) == (['{"a":0}', '{"a":1}'], True, 1)


def test_a_process_that_is_silent_counts_as_gone(path):
    file = file_at(path)
    filled(file, "r", 1, ended=False)
    other = file_at(path, process="another")
    assert not other.find("r").is_over
    with file.database.write_transaction() as db:
        db.execute(sa.update(PROCESSES).values(seen=PROCESSES.c.seen - 60))
    assert other.find("r").is_over
    assert not file.find("r").is_over, "to itself it is there"


def test_a_disk_that_takes_nothing_costs_no_run(tmp_path, monkeypatch, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    file = file_at(blocked / "journal.db")
    monkeypatch.setattr(streaming, "JOURNAL", Journal(file))
    with caplog.at_level(logging.ERROR, "playground"):
        for _ in range(2):
            assert json.loads(list(read_run(REQUEST))[-1])["kind"] == "finish"
            assert file.flush(PATIENCE_S)
    assert len([r for r in caplog.records if "journal" in r.message]) == 1


def test_a_copy_that_fails_costs_no_run(path, monkeypatch):
    def broken(self, line):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(RunStore, "add", broken)
    monkeypatch.setattr(streaming, "JOURNAL", Journal(file_at(path)))
    sent = [json.loads(text) for text in read_run(REQUEST)]
    assert sent[-1]["kind"] == "finish"
    assert messages_of(run_state(sent[0]["run"])) == [m for m in sent if "seq" in m]


def test_no_run_waits_for_a_slow_disk(path, monkeypatch):
    monkeypatch.setattr(run_store, "_MAX_BACKLOG_BYTES", 1000)
    file = file_at(path)
    filled(file, "before", 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for seq in range(100):  # more than may wait
            file.add(RunMessage("r", seq, "x" * 100, False))
        assert file._waiting <= 1000
        other.execute("COMMIT")
    assert file.flush(PATIENCE_S)
    assert read(file, "before") == (["{}"], True)
    filled(file, "after", 2)
    assert read(file, "after") == (["{}", "{}"], True)


def test_a_process_that_is_forked_writes_for_itself(path):
    file = file_at(path)
    filled(file, "before", 1)
    child = os.fork()
    if child == 0:
        try:
            file.add(RunMessage("child", 0, "{}", False))
            os._exit(0 if file.flush(PATIENCE_S) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert read(file, "child") == (["{}"], False)
    filled(file, "after", 1)
    comes_true(lambda: read(file, "after") == (["{}"], True))


def test_without_a_place_runs_are_kept_in_memory_alone(monkeypatch):
    monkeypatch.setattr(journal, "RunStore", None)
    kept = journal.open_journal(open_database(""))
    assert kept.open("r").add({"kind": "start"}) == '{"run":"r","seq":0,"kind":"start"}'
    assert kept.stored_messages("r") == []
    kept.close(0.0)
