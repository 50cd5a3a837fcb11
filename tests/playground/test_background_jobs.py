"""A run goes on when its server is started anew, or at another server: every step once, in its order."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing

import pytest

from benchmarks.reliability.visitor import Heard
from playground.storage.tables import MESSAGES, RUNS
from tests.helpers.going_on import Run, begun, check, page_at
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.server import free_port, process

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize(
    "end", [pytest.param(signal.SIGTERM, id="ended"), pytest.param(signal.SIGKILL, id="killed")]
)
def test_every_step_comes_once_when_the_server_is_started_again(tmp_path, end):
    """One of the runs has begun, one goes along with it or is about to, and one waits in line."""
    runs = [Run("greedy"), Run("sampling", seed=3, temperature=1.3), Run("speculative")]
    about = {"port": free_port(), "journal": tmp_path / "journal.db", "process_gone_s": 2.0}
    pages = []
    with process(tmp_path / "first.txt", **about) as (url, served):
        for run in runs:
            pages.append(page_at(url))
            run.press(pages[-1])
        runs[0].follow(pages[0], begun)
        served.send_signal(end)
        served.wait()
    with process(tmp_path / "second.txt", **about):
        for page, run in zip(pages, runs, strict=True):
            run.stay(page)
            page.http.close()
            check(run)
    assert runs[0].states >= 1


def test_what_comes_out_otherwise_is_a_run_of_its_own(tmp_path):
    run, journal = Run("sampling", seed=3, temperature=1.3), tmp_path / "journal.db"
    about = {"port": free_port(), "journal": journal, "process_gone_s": 2.0}
    with process(tmp_path / "first.txt", **about) as (url, served):
        page = page_at(url)
        run.press(page)
        run.follow(page, begun)
        # The journal is written beside the run: on a busy machine it lags behind what the page has.
        comes_true(lambda: stored_steps(journal) >= len(run.heard.indices))
        served.kill()
        served.wait()
    with closing(sqlite3.connect(journal)) as db:
        # As if the new server had another version of something that decides.
        written = f"UPDATE {RUNS.name} SET asked = replace(asked, '\"seed\":3', '\"seed\":4')"
        assert db.execute(written).rowcount == 1
        db.commit()
    with process(tmp_path / "second.txt", **about), closing(page.http):
        page.announce(run.asked["press"])
        page.ask(run.element, {**run.asked, "resume": True, "run": run.heard.run, "next": 0})
        told = numbered(page)
    end = next(number for number, message in enumerate(told) if message["kind"] == "fail")
    assert "the run differed after" in told[end]["error"]
    first, second = (Heard(), Heard())
    for heard, messages in ((first, told[: end + 1]), (second, told[end + 1 :])):
        for message in messages:
            heard.take(message, last=False)
        assert (heard.foreign, heard.indices) == (0, list(range(len(heard.indices))))
    assert (first.run, second.run) == (run.heard.run, told[end]["anew"])
    assert first.indices[: len(run.heard.indices)] == run.heard.indices
    run.heard, run.asked = second, {**run.asked, "seed": 4}
    check(run)


def stored_steps(journal):
    """Return how many steps a journal holds."""
    with closing(sqlite3.connect(journal)) as db:
        texts = [json.loads(text) for (text,) in db.execute(f"SELECT text FROM {MESSAGES.name}")]
    return sum(len(message.get("steps", ())) for message in texts)


def numbered(page):
    """Return the messages of all runs that a page hears of, to the last one's end, each once."""
    found, seen = [], set()
    for message, _ in page.messages(PATIENCE_S):
        for one in message["messages"] if message["kind"] == "state" else [message]:
            name = one["run"], one.get("seq")
            if one["kind"] != "progress" and name not in seen:
                seen.add(name)
                found.append(one)
        if message["kind"] == "finish":
            return found
    raise AssertionError(found[-1])
