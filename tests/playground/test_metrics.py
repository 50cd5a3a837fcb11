"""The numbers for operators: what they say, how they are named, and who may read them."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine import DecodeRequest, decode
from engine.run import run_counters
from engine.serving import cluster
from engine.settings import Settings
from engine.strategies import STRATEGIES
from playground.rooms.registry import RoomRegistry
from playground.server import metrics
from playground.shell.guard import error_message

MARKER = "zanzibar-7431"
LOCAL = ("127.0.0.1", 40_000)
BASE_UNITS = ("_seconds", "_bytes", "_info")


@pytest.fixture
def rooms():
    return RoomRegistry()


@pytest.fixture
def ask(rooms, monkeypatch):
    """Return a function that asks for the numbers from an address, with headers, under settings."""

    def asks(client=LOCAL, headers=(), **settings):
        monkeypatch.setattr(metrics, "SETTINGS", Settings(**settings))
        app = Starlette(routes=metrics.routes(rooms.count_open))
        return TestClient(app, client=client).get("/metrics", headers=dict(headers))

    return asks


def families(answer):
    assert answer.status_code == 200, answer.text
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(found, name, **labels):
    return next(
        s.value for f in found.values() for s in f.samples if (s.name, s.labels) == (name, labels)
    )


def test_the_numbers_are_those_of_the_process(ask):
    list(decode(DecodeRequest("greedy", prompt=MARKER, params={"max_new_tokens": 5})))
    list(decode(DecodeRequest(MARKER, prompt=MARKER)))
    found, said = families(ask()), run_counters.snapshot()
    assert value(found, "playground_tokens_total", strategy="greedy") == said["tokens"]["greedy"]
    ended = {"strategy": "greedy", "outcome": "finished"}
    assert value(found, "playground_runs_total", **ended) == said["ended"]["greedy"]["finished"]
    assert value(found, "playground_run_failures_total", code="parameter") >= 1
    assert value(found, "playground_models_bytes") == said["model_bytes"] > 0
    count = value(found, "playground_run_wait_seconds_count")
    assert count == value(found, "playground_run_wait_seconds_bucket", le="+Inf")
    assert count == sum(said["queue_s"]["counts"])
    assert found["process_resident_memory_bytes"].samples[0].value > 1e7
    assert MARKER not in ask().text


def test_what_the_web_process_has_open_is_there(ask, rooms):
    room, _ = rooms.open("temperature", "en", 1, "")
    rooms.enter(room.state.code, "", "")
    error_message(ValueError("of the program's own"))
    with metrics.LISTENERS.open_stream("one"), metrics.LISTENERS.open_stream("one"):
        found = families(ask())
    assert value(found, "playground_rooms_open") == 1
    assert value(found, "playground_room_people") == 1
    assert value(found, "playground_open_streams") >= 2
    assert value(found, "playground_listening_sessions") >= 1
    assert value(found, "playground_handler_errors_total") >= 1
    assert value(found, "playground_journal_backlog_bytes") == 0


def test_a_replica_says_the_same_of_itself_under_a_name_of_its_own(ask, monkeypatch):
    said = run_counters.snapshot()
    monkeypatch.setattr(run_counters.REPLICA_REPORTS, "_reports", {})
    assert "replica=" not in ask().text
    run_counters.REPLICA_REPORTS.add("engine#1", said)
    run_counters.REPLICA_REPORTS.add("engine#2", {**said, "going": 3, "memory_bytes": None})
    found = families(ask())
    assert value(found, "playground_replica_runs_going", replica="engine#2") == 3
    assert (
        value(found, "playground_replica_memory_bytes", replica="engine#1") == said["memory_bytes"]
    )
    assert len(found["playground_replica_memory_bytes"].samples) == 1
    own = {name for name in found if name.startswith(metrics.REPLICA_PREFIX)}
    assert own == {metrics.REPLICA_PREFIX + metric.name for metric in metrics.REPLICA_METRICS}


def test_replicas_are_asked_where_they_compute(ask, monkeypatch):
    reports = run_counters.ReplicaReports()
    said = {"node": "a", "pid": 7, "counted": run_counters.snapshot()}
    monkeypatch.setattr(cluster, "collect_reports", lambda: [said])
    monkeypatch.setattr(metrics.run_counters, "REPLICA_REPORTS", reports)
    ask()
    assert reports.recent() == {}
    ask(engine="ray")
    assert reports.recent() == {"a:7": said["counted"]}


def test_names_and_labels_are_as_they_should_be(ask):
    known = {
        "strategy": {*STRATEGIES, run_counters.OTHER_STRATEGY},
        "outcome": set(run_counters.OUTCOMES),
    }
    for family in families(ask()).values():
        if not family.name.startswith(metrics.PREFIX):
            continue
        assert re.fullmatch("[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        assert not re.search("_(ms|mb|kb|minutes|count|total)$", family.name)
        for sample in family.samples:
            for label, text in sample.labels.items():
                assert text in known.get(label, {text})
    every = [*metrics.REPLICA_METRICS, *metrics.WEB_METRICS]
    assert {label for metric in every for label in metric.labels} == {
        *("strategy", "outcome", "code", "state"),
        *("version", "commit"),
    }
    for metric in every:
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds")
        if metric.means.startswith(("Seconds", "Memory")):
            assert metric.name.endswith(BASE_UNITS)


def test_openmetrics_is_spoken_with_who_asks_for_it(ask):
    answer = ask(headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("status", "client", "headers", "settings"),
    [
        (200, "127.0.0.1", {}, {}),
        (200, "::1", {}, {}),
        (404, "192.0.2.7", {}, {}),
        (404, "127.0.0.1.example", {}, {}),
        # A proxy on this machine makes everybody look local.
        (404, "127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, {}),
        (404, "127.0.0.1", {"x-forwarded-for": "127.0.0.1"}, {}),
        (404, "127.0.0.1", {"X-Forwarded-Proto": "https"}, {}),
        (404, "127.0.0.1", {"forwarded": "for=203.0.113.9"}, {}),
        (404, "127.0.0.1", {"via": "1.1 proxy"}, {}),
        (404, "127.0.0.1", {"x-real-ip": "203.0.113.9"}, {}),
        (404, "127.0.0.1", {}, {"public": True}),
        (404, "127.0.0.1", {}, {"metrics_token": "s3cret"}),
        (404, "127.0.0.1", {"authorization": "Bearer wrong"}, {"metrics_token": "s3cret"}),
        (404, "127.0.0.1", {"authorization": "Basic s3cret"}, {"metrics_token": "s3cret"}),
        (404, "127.0.0.1", {"authorization": "s3cret"}, {"metrics_token": "s3cret"}),
        (404, "192.0.2.7", {"authorization": "Bearer "}, {}),
        (404, "192.0.2.7", {"authorization": "Bearer s3cré"}, {"metrics_token": "s3cret"}),
        (200, "192.0.2.7", {"authorization": "Bearer s3cret"}, {"metrics_token": "s3cret"}),
        (200, "192.0.2.7", {"authorization": "bearer s3cret"}, {"metrics_token": "s3cret"}),
        (
            200,
            "127.0.0.1",
            {"authorization": "Bearer s3cret", "x-forwarded-for": "203.0.113.9"},
            {"metrics_token": "s3cret", "public": True},
        ),
    ],
)
def test_only_this_machine_or_who_has_the_token_may_read_them(
    ask, status, client, headers, settings
):
    given = {name: text.encode("latin1") for name, text in headers.items()}
    answer = ask((client, 1), given, **settings)
    assert answer.status_code == status
    assert ("playground_" in answer.text) == (status == 200)
