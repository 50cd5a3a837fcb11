"""A run that gave its turn to another address, for tests that let a turn be over at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine import DecodeRequest, LoadedModel
from engine.run import turn_taking
from engine.run.scheduler import RUN_QUEUE
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.queue import queue_states
from tests.helpers.runs import decode_as
from tests.helpers.visitors import FIRST, SECOND


@contextmanager
def paused_run() -> Iterator[tuple[Any, Any, Any]]:
    """Yield a run that is paused in or after its third pass, the one that computes, and the gate that holds that."""
    model, other = LoadedModel(fresh_model("llama")), LoadedModel(fresh_model("gpt2"))
    params = {"max_new_tokens": 12, "num_beams": 2}
    request = DecodeRequest("beam_search", model, input_ids=[5, 9], params=params)
    with gate(model.model, free=2) as held, gate(other.model, free=1) as at_work:
        first = decode_as(FIRST, request)
        held.wait()
        second = decode_as(SECOND, dataclasses.replace(request, model=other))
        comes_true(lambda: turn_taking.READY in queue_states())
        held.open()
        at_work.wait()
        comes_true(lambda: turn_taking.PAUSED in queue_states())
        yield first, second, at_work
    for run in (first, second):
        run.close()
        assert run.join(PATIENCE_S)
    assert not RUN_QUEUE._tickets
