"""Work that pages begin: found, stopped and limited by one registry."""

from __future__ import annotations

import threading

import pytest

from engine.errors import BusyError, Cancelled, ParameterError, StoppedError
from playground.jobs import registry
from playground.jobs.page_events import _read_job
from playground.jobs.registry import ENDED_MESSAGE, JobKind, JobRegistry
from tests.helpers.patience import PATIENCE_S, comes_true


@pytest.fixture
def jobs():
    return JobRegistry()


def until_stopped(job, asked):
    """Work that sends one message and goes on until it is stopped."""
    yield {"kind": "running"}
    comes_true(job.cancelled.is_set)
    yield {"kind": "stopped"}


WORK = JobKind("work", until_stopped, about=lambda asked: {"number": asked.get("number", 0)})


def test_the_same_press_is_one_job_and_every_reader_gets_all_of_it(jobs):
    job = jobs.start(WORK, "a", {"number": 3})
    assert jobs.start(WORK, "a", {"number": 4}) is job
    jobs.stop("a")
    told = [{"kind": "running", "number": 3}, {"kind": "stopped", "number": 3}]
    assert list(job.read()) == list(jobs.find("a").read()) == told


def test_a_stop_that_comes_first_is_kept_for_the_job(jobs):
    jobs.stop("early")
    assert [message["kind"] for message in jobs.start(WORK, "early", {}).read()] == [
        "running",
        "stopped",
    ]
    with jobs.run(JobKind("question")) as job:
        assert not job.cancelled.is_set()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ParameterError("seed", -1, "it must be 0"), "seed = -1 is not allowed: it must be 0."),
        (StoppedError("Stopped early."), "Stopped early."),
        (Cancelled(), "Stopped."),
        (SystemExit(1), "Something went wrong inside"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_the_last_message(jobs, error, said):
    def fail(job, asked):
        yield {"kind": "progress"}
        raise error

    *_, last = jobs.start(JobKind("work", fail), "a", {}).read()
    assert last["kind"] == "failed"
    assert last["error"].startswith(said)
    assert last.get("stopped", False) == isinstance(error, (StoppedError, Cancelled))


def test_a_message_that_is_no_json_ends_its_job_with_a_sentence(jobs):
    def send(job, asked):
        yield {"value": 0.5}
        yield {"value": float("nan")}
        yield {"value": 1.0}

    first, *rest = jobs.start(JobKind("work", send), "a", {}).read()
    assert first.text == '{"value":0.5}'
    assert [message["kind"] for message in rest] == ["failed"]


def test_a_page_that_resumes_an_unknown_job_learns_so():
    asked = {"press": "unknown", "resume": True, "number": 5}
    assert list(_read_job(WORK, asked)) == [{"kind": "failed", "error": ENDED_MESSAGE, "number": 5}]


def test_so_many_at_once_and_the_next_waits_or_is_refused(jobs):
    one = JobKind("one", slots=1, wait_s=0.0, busy="Somebody else is at it.")
    with jobs.run(one):
        with pytest.raises(BusyError, match="Somebody else"), jobs.run(one):
            pass
        # Another kind has its own slots.
        with jobs.run(JobKind("other", slots=1)):
            pass
        jobs.stop("waiting")
        with (
            pytest.raises(StoppedError, match="Stopped"),
            jobs.run(JobKind("one", slots=1), "waiting"),
        ):
            pass
    with jobs.run(one):
        pass


def test_a_part_of_a_page_has_its_latest_question_alone(jobs):
    latest, begun, ended = JobKind("latest", latest_only=True), threading.Event(), []

    def ask():
        try:
            with jobs.run(latest, "part") as job:
                begun.set()
                comes_true(job.cancelled.is_set)
                raise Cancelled
        except Cancelled:
            ended.append("first")

    first = threading.Thread(target=ask)
    first.start()
    assert begun.wait(PATIENCE_S)
    with jobs.run(latest, "part") as job:
        first.join(PATIENCE_S)
        assert ended == ["first"]
        assert not job.cancelled.is_set()
    # A stop that comes late is not kept for the next question of the same part.
    jobs.stop("part")
    with jobs.run(latest, "part") as job:
        assert not job.cancelled.is_set()


def test_what_nobody_waits_for_is_stopped(jobs, monkeypatch):
    short = registry.SETTINGS.__class__(unheard_s=0.05, away_s=0.05)
    monkeypatch.setattr(registry, "SETTINGS", short)
    monkeypatch.setattr(registry, "current_session", lambda: "gone")
    with jobs.run(JobKind("question")) as job:
        comes_true(job.cancelled.is_set)
    closed = threading.Event()

    def endless(job, asked):
        try:
            while True:
                yield {"kind": "progress"}
        finally:
            closed.set()

    jobs.start(JobKind("work", endless), "a", {})
    assert closed.wait(PATIENCE_S)


def test_ended_jobs_make_room_and_running_ones_stay(jobs, monkeypatch):
    monkeypatch.setattr(registry, "_MAX_ENDED", 2)
    jobs.start(WORK, "running", {})
    for number in range(5):
        done = jobs.start(JobKind("work", lambda job, asked: iter(())), f"done {number}", {})
        comes_true(lambda done=done: done.ended)
    jobs.start(JobKind("work", lambda job, asked: iter(())), "last", {})
    assert [jobs.find(f"done {number}") is not None for number in range(5)] == [
        *[False] * 3,
        *[True] * 2,
    ]
    assert jobs.find("running") is not None
    jobs.stop("running")
