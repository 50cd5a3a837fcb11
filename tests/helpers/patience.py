"""How long a test waits for a state before it calls the wait a hang; nothing is measured with it.

A busy machine may take a hundred times as long as a quiet one, and the states that the tests wait
for come at once or never. So this is long, and every wait of the tests has the same; the environment
variable TESTS_PATIENCE_S shortens it for somebody who is looking for a fault.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

PATIENCE_S = float(os.environ.get("TESTS_PATIENCE_S", "240"))
PATIENCE_MS = 1000 * PATIENCE_S


def wait_for(event: threading.Event) -> None:
    """Wait until an event is set."""
    assert event.wait(PATIENCE_S), "what was waited for never happened"


def comes_true(holds: Callable[[], object]) -> None:
    """Wait until something holds that no event tells of."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "what was waited for never came true"
        time.sleep(0.01)
