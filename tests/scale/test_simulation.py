"""The simulation against what is known in closed form, and what it may never lose."""

from __future__ import annotations

import dataclasses
import math
import statistics

import pytest

from benchmarks.scale.simulate import repeated, simulate
from benchmarks.scale.world import Crowd, Hall, Kind, pass_costs

RUNS = 12_000
REPEATS = 8
WARM = 0.1
T_999 = 5.408
"""Student's t of 7 degrees of freedom, two-sided at 99.9 %."""
GRID = [(i + 0.5) / 4000 for i in range(4000)]
EXPONENTIAL = Kind("exponential", tuple(-math.log(1 - u) for u in GRID))
CONSTANT = Kind("constant", (1.0,))


def poisson(rate, runs=RUNS):
    return Crowd(runs, over_s=runs / rate)


def holds(kind, crowd, hall, expected, of="waits"):
    """Whether a mean that is known lies within the confidence interval of what was simulated."""
    means = []
    for seed in range(REPEATS):
        found = simulate([kind], crowd, hall, seed)
        if of == "waits":
            means.append(float(found.waits(WARM).mean()))
        else:
            done = found.count.done[int(WARM * RUNS) :]
            means.append(statistics.fmean(run.ended_at - run.pressed_at for run in done))
    middle = statistics.fmean(means)
    error = T_999 * statistics.stdev(means) / math.sqrt(REPEATS)
    assert error < 0.15 * max(expected, 1.0), "too wide an interval shows nothing"
    assert abs(middle - expected) <= error, (middle, error, expected)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "load"), [(EXPONENTIAL, 0.5), (EXPONENTIAL, 0.7), (CONSTANT, 0.5), (CONSTANT, 0.7)]
)
def test_one_server_waits_as_pollaczek_and_khinchine_say(kind, load):
    spread = 1 if kind is EXPONENTIAL else 0
    holds(kind, poisson(load), Hall(), (1 + spread) / 2 * load / (1 - load))


@pytest.mark.nightly
@pytest.mark.parametrize(("servers", "load"), [(2, 0.7), (5, 0.8)])
def test_servers_of_one_line_wait_as_erlang_says(servers, load):
    offered = servers * load
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1 - load)
    waits = last / (sum(terms) + last) / (servers * (1 - load))
    hall = Hall(replicas=servers, shared_line=True)
    holds(EXPONENTIAL, poisson(servers * load), hall, waits)


@pytest.mark.nightly
def test_the_better_of_two_lines_is_as_good_as_mitzenmacher_says():
    load, servers = 0.9, 200
    time_there = sum(load ** (2**i - 2) for i in range(1, 12))
    crowd = poisson(servers * load, 60_000)
    found = simulate([EXPONENTIAL], crowd, Hall(replicas=servers), 1)
    times = [run.ended_at - run.pressed_at for run in found.count.done[20_000:]]
    assert statistics.fmean(times) == pytest.approx(time_there, rel=0.06)


@pytest.mark.nightly
def test_a_batch_that_gains_nothing_is_processor_sharing():
    shared = dataclasses.replace(EXPONENTIAL, shares=True)
    hall = Hall(batch=10_000, pass_cost=(1.0, 2.0))
    holds(shared, poisson(0.6), hall, 1 / (1 - 0.6), of="times")


def test_a_batch_that_costs_nothing_is_a_server_for_everyone():
    shared = dataclasses.replace(EXPONENTIAL, shares=True)
    found = simulate([shared], poisson(3.0), Hall(batch=1000, pass_cost=(1.0,) * 1000), 3)
    assert found.waits().max() == 0
    for run in found.count.done:
        assert run.ended_at - run.pressed_at == pytest.approx(run.work_s)


def test_what_shares_no_pass_computes_alone():
    kinds = [dataclasses.replace(CONSTANT, shares=True), CONSTANT]
    found = simulate(kinds, Crowd(4, turns=True), Hall(batch=4, pass_cost=(1.0,) * 4))
    assert found.until_s == pytest.approx(4.0)
    alike = [kinds[0]]
    assert simulate(alike, Crowd(4), Hall(batch=4, pass_cost=(1.0,) * 4)).until_s == 1.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shared", [False, True])
def test_nobody_is_lost_whatever_happens(seed, shared):
    hall = Hall(
        replicas=3,
        shared_line=shared,
        max_waiting=4,
        lost_every_s=3.0,
        lost_until_s=90.0,
        restart_s=7.0,
        batch=2,
        pass_cost=(1.0, 1.4),
    )
    crowd = Crowd(60, runs=3, over_s=40.0, think_s=1.0, retry_s=2.0, retries=3)
    kinds = [dataclasses.replace(EXPONENTIAL, shares=True), CONSTANT]
    for until in (15.0, 60.0, None):
        found = simulate(kinds, crowd, hall, seed, until)
        count = found.count
        assert count.arrived == count.served + count.given_up + found.going
        assert count.served == len(count.done) == len({id(run) for run in count.done})
        assert count.busy_s <= hall.replicas * found.until_s + 1e-6
    assert found.going == 0
    assert count.arrived == crowd.visitors * crowd.runs
    assert count.refusals
    assert count.losses


def test_a_run_whose_replica_is_lost_is_run_again_and_its_steps_repeated():
    kind = Kind("ten", (10.0,), (1.0,), steps=100)
    hall = Hall(replicas=2, lost_every_s=4.0, lost_until_s=4.0, restart_s=50.0)
    # One run: if the lost replica had it, forty of its steps are computed again by the other one.
    runs = [simulate([kind], Crowd(1), hall, seed).count.done[0] for seed in range(20)]
    assert {run.losses for run in runs} == {0, 1}
    for run in runs:
        assert run.repeated == 40 * run.losses
        assert run.ended_at == pytest.approx(10 + 4 * run.losses)


def test_while_no_replica_is_up_runs_wait_for_one():
    hall = Hall(lost_every_s=4.0, lost_until_s=4.0, restart_s=50.0)
    found = simulate([Kind("ten", (10.0,), steps=100)], Crowd(3), hall)
    assert found.count.served == 3
    assert found.until_s == pytest.approx(54 + 30)


def test_more_webs_begin_sooner():
    kind = dataclasses.replace(CONSTANT, seconds=(0.001,), web_s=0.1)
    one, four = (simulate([kind], Crowd(40), Hall(replicas=4, webs=n)).until_s for n in (1, 4))
    assert one > 3.5 * four
    assert one == pytest.approx(39 * 0.1, abs=0.2)


def test_the_same_seed_is_the_same_simulation():
    crowd, hall = Crowd(50, runs=2, over_s=10, think_s=1.0), Hall(replicas=2)
    first, again, other = (simulate([EXPONENTIAL], crowd, hall, s).figures() for s in (1, 1, 2))
    assert first == again
    assert first != other
    spread = repeated([EXPONENTIAL], crowd, hall, 3, 1)["wait_p50_s"]
    assert spread["n"] == 3
    assert spread["min"] <= spread["median"] <= spread["max"]


def test_costs_of_passes_follow_from_gains():
    costs = pass_costs({2: 1.9, 4: 3.1, 8: 5.6})
    assert costs[0] == 1.0
    assert costs[1] == pytest.approx(2 / 1.9)
    assert costs[7] == pytest.approx(8 / 5.6)
    assert list(costs) == sorted(costs)
    assert Hall(batch=16, pass_cost=costs).cost(16) == pytest.approx(2 * costs[7])
