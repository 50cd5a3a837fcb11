"""Replicas that do what no replica should, or say what none is asked in earnest."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from engine.serving import replica
from engine.serving.deployment import ServedReplica

SPOILED = "TESTS_SPOILED"


class Steps:
    """A witness that counts the steps of a run that began although it had been told to stop.

    A step begins where the one before is recorded: in the one that goes on a run may not yet be stopped.
    """

    def __init__(self):
        self._decided, self._told = 0, False
        self._run = self.late = None

    def stopped(self, run):
        """Count from now on."""
        self._run, self.late = run, 0

    def on_start(self, run, header):
        pass

    def on_logits(self, logits, input_ids, processors):
        pass

    def on_step(self, step):
        # The last one comes again where something was measured beside it.
        new, self._decided = step.index >= self._decided, step.index + 1
        if new and self._told:
            self.late += 1
        self._told = self._run is not None and self._run.cancelled

    def on_end(self):
        self._run = None


class WatchedReplica(ServedReplica):
    """Says how many steps of every stopped run began after it was told to stop."""

    def __init__(self):
        super().__init__()
        self._steps = {}
        replica.decode = partial(replica.decode, witness=self._witness)

    def _witness(self, run_id):
        return self._steps.setdefault(run_id, Steps())

    async def stop(self, call):
        run = self._runs.get(call)
        if run is not None:
            self._steps[run.run_id].stopped(run)
        return await super().stop(call)

    async def report(self):
        late = [steps.late for steps in self._steps.values() if steps.late is not None]
        return {**await super().report(), "steps_after_stop": late}


class SpoiledReplica(WatchedReplica):
    """Decodes with the next seed while the file that TESTS_SPOILED names is there."""

    async def decode(self, fields, visitor, call):
        seed = fields["seed"] + Path(os.environ[SPOILED]).exists()
        async for batch in super().decode({**fields, "seed": seed}, visitor, call):
            yield batch
