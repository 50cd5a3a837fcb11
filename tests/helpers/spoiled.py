"""A replica that answers as if its seed were another one, once a file says so."""

from __future__ import annotations

import os
from pathlib import Path

from engine.serving.deployment import ServedReplica

SPOILED = "TESTS_SPOILED"


class SpoiledReplica(ServedReplica):
    """Decodes with the next seed while the file that TESTS_SPOILED names is there."""

    async def decode(self, fields, visitor, call):
        seed = fields["seed"] + Path(os.environ[SPOILED]).exists()
        async for batch in super().decode({**fields, "seed": seed}, visitor, call):
            yield batch
