"""Python source is read rightly in several threads at once."""

from __future__ import annotations

import gc
import inspect
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.python_source import parse_expression, parse_module
from engine.run import request

SOURCE = inspect.getsource(request)


@pytest.fixture
def _other_threads_run_while_a_tree_is_made():
    """Let other threads run at every collection of garbage, of which a large tree makes many."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()

    def give_way(phase, info):
        del phase, info
        time.sleep(0)

    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    gc.callbacks.remove(give_way)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_other_threads_run_while_a_tree_is_made")
def test_threads_that_read_at_once_disturb_each_other_in_nothing():
    with ThreadPoolExecutor(6) as threads:
        trees = list(threads.map(parse_module, [SOURCE] * 90))
    assert {len(tree.body) for tree in trees} == {len(trees[0].body)}


def test_an_expression_and_what_is_no_python():
    assert parse_expression("1 + 2").body.right.value == 2
    with pytest.raises(SyntaxError):
        parse_expression("a = 1")
    with pytest.raises(SyntaxError):
        parse_module(b"def")
