"""A real model held in other ways: every strategy writes what generate() writes with the same weights."""

from __future__ import annotations

import itertools

import pytest

from engine import DecodeRequest
from engine.declare.weights import WeightsParams
from engine.models.loading import load
from engine.trace.details import DraftDetail
from tests.helpers.real import CHAT, NAME, PLAIN, assistant_of, ids_of, real_model
from tests.helpers.references import params_of
from tests.helpers.runs import finished
from tests.helpers.same_passes import expected_by_passes
from tests.helpers.strategies import LOOPS, WITHOUT_HEADS

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

NEW, SEED = 6, 3
WAYS = {
    "bfloat16": {"dtype": "bfloat16"},
    "8bit": {"quantization": "8bit"},
    "4bit": {"quantization": "4bit"},
    # Embeddings and the first layers are in memory, the others wait on disk.
    "disk": {"device_map": "auto", "max_memory": {"cpu": "200MB"}},
}
FROM_DISK = (*LOOPS, "greedy", "early_exit")
"""The strategies that are tried from disk, where each pass loads all weights again and takes seconds."""
EVERYDAY = (
    ("bfloat16", "beam_search", "plain"),
    ("8bit", "early_exit", "chat"),
)
"""The others are tried by ``make nightly``."""


def _cells():
    """Every way with its strategies, each with one prompt; every way and every strategy has both."""
    pairs = itertools.product(enumerate(WAYS), enumerate(WITHOUT_HEADS))
    for (row, way), (column, strategy) in pairs:
        if way == "disk" and strategy not in FROM_DISK:
            continue
        cell = (way, strategy, (PLAIN, CHAT)[(row + column) % 2])
        named = (*cell[:2], "chat" if cell[2] == CHAT else "plain")
        marks = () if named in EVERYDAY else pytest.mark.nightly
        yield pytest.param(*cell, marks=marks, id="-".join(named))


def run(way, strategy, prompt):
    """Return the run's trace, and the model as it is held."""
    real_model()
    values = WAYS[way]
    request = DecodeRequest(
        strategy,
        NAME,
        input_ids=ids_of(prompt),
        params={"max_new_tokens": NEW, **params_of(strategy)},
        seed=SEED,
        assistant=assistant_of(strategy),
        weights=values,
    )
    limits = values.get("max_memory")
    pairs = None if limits is None else tuple(limits.items())
    held = load(NAME, weights=WeightsParams(**{**values, "max_memory": pairs}))
    return finished(request), held


@pytest.mark.by_day("bfloat16-beam_search-plain")
@pytest.mark.parametrize(("way", "strategy", "prompt"), [*_cells()])
def test_a_strategy_gives_the_tokens_of_generate(way, strategy, prompt):
    trace, held = run(way, strategy, prompt)
    wanted = expected_by_passes(strategy, held, ids_of(prompt), NEW, SEED, assistant_of(strategy))
    assert [list(output.token_ids) for output in trace.outputs] == wanted
    detail = trace.steps[-1].detail
    if not isinstance(detail, DraftDetail):
        return
    # Another pass over the text is no proof where its sums are others.
    report, few = detail.report, "quantization" in WAYS[way]
    assert (report.checked, report.parting) == (0 if few else len(wanted[0]), None)
    assert ("quantised weights" in " ".join(trace.notes)) == few
