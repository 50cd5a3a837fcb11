"""Work done aside leaves no thread behind."""

from __future__ import annotations

import threading

import pytest

from engine.one_shot_thread import run_in_thread


def test_it_returns_from_a_thread_that_has_ended():
    worker = run_in_thread(threading.current_thread)
    assert worker is not threading.current_thread()
    assert not worker.is_alive()


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_it_raises_what_the_work_raises(error):
    def fail():
        raise error("no")

    with pytest.raises(error, match="no"):
        run_in_thread(fail)
