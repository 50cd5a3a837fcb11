"""A beam loop under generate(), and what must hold of every record of a search."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.loops.beams.search import beam_loop
from engine.trace.records import replay_ids
from tests.helpers.loops import run_loop
from tests.helpers.runs import finished

PROMPT = [1, 5, 6, 7, 8, 9, 5, 6]


def searched(strategy, model, prompt=None, **params):
    """Return the trace of a search."""
    ids = None if prompt else PROMPT
    return finished(DecodeRequest(strategy, model, prompt, input_ids=ids, params=params))


def run(loaded, ids, mask=None, seed=0, loop=beam_loop, **kwargs):
    """Return (the loop's output, steps) under generate(); without a mask nothing is padding."""
    mask = [[1] * len(row) for row in ids] if mask is None else mask
    return run_loop(loop, loaded, ids, mask, seed, **kwargs)


def check_invariants(steps, beams, returned, by_sum=True):
    """Check one search's record against itself; ``by_sum``: the best sums are kept."""
    known = {-1: (0.0, [])}
    for step in steps:
        detail = step.detail
        assert len({n.node_id for n in detail.pool} & set(known)) == 0
        before = dict(known)
        for node in detail.pool:
            total, path = before[node.parent_id]
            assert node.sum_logprobs == pytest.approx(total + node.logprob, abs=1e-4)
            known[node.node_id] = (node.sum_logprobs, [*path, node.token_id])
        kept = [n for n in detail.pool if n.fate == "kept"]
        assert len(kept) <= beams
        pruned = [n for n in detail.pool if n.fate == "pruned" and n.arrival is None]
        assert not by_sum or all(n.margin <= 1e-6 for n in pruned)
    last = steps[-1].detail
    assert last.stopping
    assert all(not step.detail.stopping for step in steps[:-1])
    assert known[last.winner_node_id][1] == replay_ids(tuple(steps)) == returned[0]
    paths = [known[h.node_id][1] for h in last.heap]
    assert all(ids in paths for ids in returned)


def new_tokens(out, start):
    return [
        row[start : start + n] for row, n in zip(out.sequences.tolist(), out.lengths, strict=True)
    ]
