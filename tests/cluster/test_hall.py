"""The load programme in small: a class on two replicas, one of which is killed while it runs."""

import json

import pytest

from benchmarks.scale import hall

pytest.importorskip("ray")


def test_a_class_loses_nothing_when_a_replica_is_killed():
    load = ["--visitors=6", "--runs=2", "--steps=12", "--no-custom", "--kill-s=0.5", "--for-s=1"]
    found = hall.apart(["ray", *load], 6)
    wrong = {name: found[name] for name in hall.GOALS}
    assert not any(wrong.values()), json.dumps({**wrong, "errors": found["errors"]})
    assert found["runs"] == 12
    assert found["killed"] >= 1
