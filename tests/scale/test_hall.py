"""What the load programme calls lost, doubled, foreign and unequal."""

import dataclasses

import pytest

from benchmarks.scale import compare, hall, mix
from benchmarks.scale.mix import Told
from benchmarks.scale.world import Crowd, Hall
from engine.strategies import STRATEGIES

REQUEST = mix.requests_of(4, custom=False)[0]
RIGHT = Told(0.0, 1.0, 1.5, 2.0, [0, 1, 2], ((5, 6, 7),), REQUEST.seed)


def judged(**changed):
    return hall.judged([(0, dataclasses.replace(RIGHT, **changed))], [RIGHT], [REQUEST])


def test_a_run_that_is_right_is_counted_as_nothing_wrong():
    found = judged()
    assert not any(found[name] for name in hall.GOALS)
    assert found["runs"] == 1
    assert found["wait_p50_s"] == 1.0
    assert found["first_p95_s"] == 1.5
    assert found["runs_per_s"] == 0.5


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"indices": [0, 2]}, {"steps_lost": 1}),
        ({"indices": [0, 1, 1, 2]}, {"doubled": 1}),
        ({"tokens": ((5, 6, 8),)}, {"unequal": 1}),
        ({"tokens": None}, {"runs_lost": 1, "unequal": 1}),
        ({"seed": 99}, {"foreign": 1}),
    ],
)
def test_each_wrong_is_counted(changed, wrong):
    found = judged(**changed)
    assert {name: found[name] for name in hall.GOALS if found[name]} == wrong


def test_every_strategy_is_asked_for():
    assert {request.strategy for request in mix.requests_of(4)} == set(STRATEGIES)
    assert len({(r.strategy, r.seed) for r in mix.requests_of(4)}) == mix.SEEDS * len(STRATEGIES)


def test_a_run_is_followed_to_its_end():
    told = mix.heard(REQUEST)
    assert told.indices == list(range(4))
    assert told.tokens is not None
    assert told.pressed_at <= told.began_at <= told.first_at <= told.ended_at


def test_other_runs_slow_a_simulated_run_as_far_as_the_queue_allows():
    slow = Hall(crowding=0.2, crowded_by=25)
    assert slow.slower(0) == 1
    assert slow.slower(5) == pytest.approx(1.04)
    assert slow.slower(25) == slow.slower(1000) == pytest.approx(1.2)
    assert Hall(crowding=0.5, crowded_by=0).slower(0) == 1.5


def test_the_line_looks_as_often_as_the_simulation_says():
    from engine.run import scheduler

    assert (
        round(scheduler._POLL_S * scheduler._CHECKS_PER_S) == Hall().crowded_by == hall._CROWDED_BY
    )


def test_what_was_measured_is_simulated_with_its_own_pace():
    kinds = [{"name": "a", "seconds": [1.0], "first_s": [0.5], "steps": 4}]
    found = {"kinds": kinds, "solo_s": 1.0, "solo_after_s": 3.0}
    told = compare.simulated(found, Crowd(3, turns=True), Hall())
    # Twice as slow on average: nobody waits, then 2 s, then 4 s.
    assert told["wait_p50_s"]["median"] == pytest.approx(2.0)
    assert told["first_p50_s"]["median"] == pytest.approx(3.0)
