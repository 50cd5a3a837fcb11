"""Run as a process of its own: runs models one after another and prints, as JSON, what memory they took.

Its arguments are folders of models; each is run three times in turn. Megabytes are millions of bytes.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from engine import DecodeRequest, decode
from engine.models import loading
from engine.trace.events import Finished

_ROUNDS = 3
_LOOK_S = 0.002


def memory_mb() -> float:
    """Return the memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024 / 1e6


class Watch:
    """The most memory since it was set to 0."""

    def __init__(self) -> None:
        self.most, self.over = 0.0, threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self.over.wait(_LOOK_S):
            self.most = max(self.most, memory_mb())


def run(model: str) -> None:
    """Decode two tokens."""
    *_, last = decode(DecodeRequest("greedy", model, input_ids=[5], params={"max_new_tokens": 2}))
    assert isinstance(last, Finished), last


def main() -> None:
    """Print what the process has before any of the models, and of every run its most and what is held after it."""
    run("storyteller-draft")
    before, watch, told = memory_mb(), Watch(), []
    for folder in sys.argv[1:] * _ROUNDS:
        watch.most = 0.0
        run(folder)
        held = sum(entry.loaded.memory_bytes() for entry in loading._CACHE.values()) / 1e6
        told.append({"most": watch.most, "held": held, "models": len(loading._CACHE)})
    watch.over.set()
    sys.stdout.write(json.dumps({"before": before, "runs": told}) + "\n")


if __name__ == "__main__":
    main()
