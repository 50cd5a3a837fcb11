"""Replicas that do what no replica should, or say what none is asked in earnest."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from engine.serving import replica
from engine.serving.deployment import ServedReplica

SPOILED = "TESTS_SPOILED"


class Steps:
    """A witness that counts the steps of a run, and knows how many there were when it was stopped."""

    def __init__(self):
        self.count, self.at_stop = 0, None

    def began(self, run, header):
        pass

    def saw(self, logits, input_ids, processors):
        pass

    def decided(self, step):
        # The last one comes again where something was measured beside it.
        self.count = max(self.count, step.index + 1)

    def ended(self):
        pass


class WatchedReplica(ServedReplica):
    """Says how many steps of every stopped run were decided after it was told to stop."""

    def __init__(self):
        super().__init__()
        self._steps = {}
        replica.decode = partial(replica.decode, witness=self._witness)

    def _witness(self, run_id):
        return self._steps.setdefault(run_id, Steps())

    async def stop(self, call):
        run = self._runs.get(call)
        if run is not None:
            steps = self._steps[run.run_id]
            steps.at_stop = steps.count
        return await super().stop(call)

    async def report(self):
        late = [s.count - s.at_stop for s in self._steps.values() if s.at_stop is not None]
        return {**await super().report(), "steps_after_stop": late}


class SpoiledReplica(WatchedReplica):
    """Decodes with the next seed while the file that TESTS_SPOILED names is there."""

    async def decode(self, fields, visitor, call):
        seed = fields["seed"] + Path(os.environ[SPOILED]).exists()
        async for batch in super().decode({**fields, "seed": seed}, visitor, call):
            yield batch
