"""Runs on two replicas of Ray Serve: what they write, and what becomes of runs whose replica is killed.

One Ray for all of them, and one file, so that several processes of tests start no second one.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec

import pytest

from engine import DecodeRequest, decode, load
from engine.errors import BusyError
from engine.serving import client, cluster
from engine.serving.client import RemoteRun
from engine.serving.delivery_log import is_same_step
from engine.strategies import STRATEGIES
from engine.trace.details import DraftReport
from engine.trace.events import Failed, Finished, RunReplaced, StepRecorded, TextDelta
from engine.trace.value_types import SECONDS, is_equal_except
from tests.helpers.patience import PATIENCE_S, comes_true

# Ray's own threads and sockets are closed by Ray, and not when a test ends.
pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-cluster"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(900),
]

LONG = 200
REPLICAS = 2


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    return tmp_path_factory.mktemp("replicas") / "spoiled"


@pytest.fixture(scope="module")
def replicas(spoiled):
    """Yield what asks every replica for its report."""
    os.environ["TESTS_SPOILED"] = str(spoiled)
    os.environ["PLAYGROUND_MAX_RUNS_PER_ADDRESS"] = "2"
    cluster.start_ray(cores=REPLICAS)
    # Ray reads its environment when it is imported.
    from engine.serving.deployment import deploy_replicas
    from engine.serving.stream import collect_reports
    from tests.helpers.replicas import SpoiledReplica

    try:
        handle = deploy_replicas(REPLICAS, replica=SpoiledReplica)
        cluster.use_replicas(handle)
        yield lambda: collect_reports(handle)
    finally:
        cluster.leave_ray()
        del os.environ["TESTS_SPOILED"], os.environ["PLAYGROUND_MAX_RUNS_PER_ADDRESS"]


@pytest.fixture(autouse=True)
def all_there(replicas):
    """Begin with as many replicas as there should be, none of them at work."""
    load("storyteller")
    comes_true(lambda: [r["runs"] for r in replicas()] == [0] * REPLICAS)


def request_of(strategy="sampling", tokens=LONG, seed=5, **params):
    return DecodeRequest(
        strategy,
        "storyteller",
        "Once upon a time",
        params={"max_new_tokens": tokens, **params},
        seed=seed,
    )


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def steps(events):
    return [event.step for event in of(StepRecorded, events)]


def measured_alike(step):
    """Return a step of a trace without the one share of a clock that may have been measured beside it."""
    report = getattr(step.detail, "report", None)
    if not isinstance(report, DraftReport):
        return step
    report = replace(report, processor_share=1.0)
    return replace(step, detail=replace(step.detail, report=report))


def untimed(events):
    """Return what the events of a whole run say, all but its times."""
    trace = events[-1].trace
    metrics = {name: value for name, value in trace.metrics.items() if name != "tokens_per_s"}
    whole = [measured_alike(step) for step in trace.steps]
    return (steps(events), of(TextDelta, events), trace.outputs, whole, metrics, trace.pieces)


def equal(there, here):
    assert is_equal_except(untimed(there), untimed(here), SECONDS)


def agreeing(there, here):
    """The same of a run whose passes may have been shared: the last digits of its numbers are their own."""
    assert len(steps(there)) == len(steps(here))
    assert all(map(is_same_step, steps(there), steps(here)))
    assert of(TextDelta, there) == of(TextDelta, here)
    assert there[-1].trace.outputs == here[-1].trace.outputs
    assert there[-1].trace.steps == tuple(steps(there))


def kill(*reports):
    for report in reports:
        os.kill(report["pid"], signal.SIGKILL)


def killed_after(count, run, victims):
    """Return the events of a run whose replicas are killed after so many of its steps."""
    told, seen = [], 0
    for event in run:
        told.append(event)
        seen += isinstance(event, StepRecorded)
        if isinstance(event, StepRecorded) and seen == count:
            kill(*victims())
    return told


@pytest.mark.parametrize("name", [n for n, s in STRATEGIES.items() if s.loop is not None])
def test_every_strategy_is_the_same_on_a_replica(name):
    request = DecodeRequest(name, prompt="Once upon a time", params={"max_new_tokens": 12}, seed=3)
    equal(list(RemoteRun(request)), list(decode(request)))


def test_replicas_step_back_for_nobody(replicas):
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    pids = [r["pid"] for r in replicas()]
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids] == [mine] * REPLICAS


def test_a_run_continues_exactly_when_its_replica_is_killed(replicas):
    told = killed_after(30, RemoteRun(request_of()), lambda: [r for r in replicas() if r["runs"]])
    assert not of(RunReplaced, told)
    here = list(decode(request_of()))
    equal(told, here)
    assert [step.index for step in steps(told)] == list(range(len(steps(here))))
    times = [step.elapsed_s for step in steps(told)]
    assert times == sorted(times)
    assert "The replica of this run was lost after" in told[-1].trace.notes[-1]


def test_all_replicas_may_be_killed_at_once(replicas):
    seeds = range(4)
    with ThreadPoolExecutor(len(seeds)) as pool:
        runs = [RemoteRun(request_of(seed=seed)) for seed in seeds]
        others = [pool.submit(list, run) for run in runs[1:]]
        first = killed_after(20, runs[0], replicas)
        for seed, told in zip(seeds, [first, *(other.result() for other in others)], strict=True):
            assert not of(RunReplaced, told)
            agreeing(told, list(decode(request_of(seed=seed))))


@pytest.mark.parametrize(
    ("strategy", "params"),
    [("greedy", {}), ("sampling", {}), ("beam_search", {"num_beams": 8}), ("speculative", {})],
)
def test_a_cancel_ends_a_run_within_a_step(replicas, strategy, params):
    """What the replica has decided is on its way when a reader cancels, so the replica's own count is asked."""

    def late():
        return [steps for report in replicas() for steps in report["steps_after_stop"]]

    before = late()
    run, last = RemoteRun(request_of(strategy, min_new_tokens=LONG, **params)), None
    for event in run:
        last = event
        if isinstance(event, StepRecorded) and event.step.index == 5:
            run.cancel()
    assert isinstance(last, Finished)
    assert last.trace.outputs[0].finish_reason == "cancelled"
    assert 6 <= len(last.trace.steps) < LONG
    after = late()
    assert len(after) == len(before) + 1
    assert sum(after) - sum(before) <= 1


def test_a_visitor_who_leaves_ends_the_replica_s_run(replicas):
    run = RemoteRun(request_of())
    while not isinstance(next(run), StepRecorded):
        pass
    run.close()
    comes_true(lambda: not any(r["runs"] for r in replicas()))
    assert run.join(PATIENCE_S)


def test_another_outcome_is_a_run_of_its_own(replicas, spoiled):
    def victims():
        spoiled.touch()
        return [r for r in replicas() if r["runs"]]

    run = RemoteRun(request_of())
    first = run.run_id
    try:
        told = killed_after(30, run, victims)
    finally:
        spoiled.unlink(missing_ok=True)
    (anew,) = of(RunReplaced, told)
    assert anew.run_id == run.run_id != first
    at = told.index(anew)
    assert is_equal_except(
        steps(told[:at]), steps(list(decode(request_of())))[: len(steps(told[:at]))], SECONDS
    )
    equal(told[at + 1 :], list(decode(request_of(seed=6))))


@pytest.mark.parametrize(
    "request_",
    [
        DecodeRequest("nothing", "storyteller", "x"),
        DecodeRequest("sampling", "storyteller", input_ids=[]),
        DecodeRequest("sampling", "storyteller", "x", params={"temperature": -1}),
        DecodeRequest("sampling", "no/such model", "x"),
        DecodeRequest("sampling", "storyteller", "x", params={"top_k": object()}),
        DecodeRequest("sampling", "storyteller", input_ids=[99999]),
    ],
)
def test_a_bad_request_is_refused_in_the_same_words(request_):
    (here,), (there,) = (of(Failed, kind(request_)) for kind in (decode, RemoteRun))
    assert type(there.error) is type(here.error)
    assert str(there.error) == str(here.error)


def test_a_full_line_says_so():
    from engine.run.visitor import Visitor
    from tests.helpers.visitors import asking_as

    with asking_as(Visitor("192.0.2.7", "page")):
        runs = [RemoteRun(request_of()) for _ in range(3 * REPLICAS)]
    with ThreadPoolExecutor(len(runs)) as pool:
        ends = [told[-1] for told in pool.map(list, runs)]
    busy = [end.error for end in ends if isinstance(end, Failed)]
    assert all(isinstance(error, BusyError) for error in busy)
    assert all("as many as one may have here" in str(error) for error in busy)
    # Each replica takes two of one address; how they are spread over both is the router's affair.
    assert REPLICAS <= len(busy) < len(runs)


def test_runs_leave_nothing_behind(replicas):
    def made():
        for seed in range(12):
            assert isinstance([*RemoteRun(request_of(tokens=8, seed=seed))][-1], Finished)
        comes_true(lambda: not any(r["runs"] for r in replicas()))
        return {r["pid"]: r for r in replicas()}

    made()
    before, after = made(), made()
    for pid, report in before.items():
        assert after[pid]["open_files"] <= report["open_files"] + 2
        assert after[pid]["threads"] <= report["threads"] + 2
        assert after[pid]["rss_bytes"] <= report["rss_bytes"] + 64e6
        assert after[pid]["models"] == report["models"]
    assert not client.PendingRun._all
