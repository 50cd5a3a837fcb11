"""A table of a model behind an address: measured as a model here, and without what only the server knows."""

from __future__ import annotations

import threading
import time

import pytest

from engine import Table, read_plan, run_table
from engine.analysis.tune.estimate import estimate_seconds
from engine.analysis.tune.plan import Cell, TunePlan
from engine.analysis.tune.run_table import _measure_trace
from engine.endpoints import import_answer
from engine.errors import EngineError
from engine.models.loading import load
from engine.trace.served import is_invented_id
from tests.helpers.endpoint_answers import list_completions, read, read_request_of
from tests.helpers.llama_server import Llama, llama_of
from tests.helpers.model_server import FakeServer
from tests.helpers.patience import PATIENCE_S
from tests.helpers.sentences import clean
from tests.helpers.tune_plans import LENGTH

PLAN = {
    "prompts": ["Once upon a time", "The dragon opened the door and"],
    "settings": [
        {"strategy": "greedy", "params": LENGTH},
        {"strategy": "sampling", "params": {**LENGTH, "temperature": 1.4}},
    ],
    "seeds": 2,
    "judge": "storyteller",
}


def there(server: FakeServer, **changes: object) -> TunePlan:
    return read_plan({**PLAN, "model": f"endpoint:{server.base}#m", **changes})


def run(plan: TunePlan) -> Table:
    table = Table(plan)
    for result in run_table(plan):
        table.add(result)
    return table


@pytest.mark.nightly
def test_greedy_search_there_and_here_has_the_same_measures() -> None:
    llama = llama_of(load("storyteller"))
    with llama.serve() as server:
        plan = there(server)
        served = run(plan)
        assert estimate_seconds(plan) is None
    here = run(read_plan(PLAN))
    for cell in (Cell(0, 0, 0), Cell(1, 0, 0)):
        found, own = served.results[cell], here.results[cell]
        assert (found.text, found.token_ids, found.error) == (own.text, own.token_ids, "")
        assert found.seconds > 0
        for name in ("repeats", "perplexity", "tokens", "finished"):
            assert found.values[name] == own.values[name], name
        assert found.values["passes_per_token"] is None
        assert own.values["passes_per_token"] == 1
    drawn = [sent for sent in llama.completions if sent["temperature"] == 1.4]
    assert sorted(sent["seed"] for sent in drawn) == [0, 0, 1, 1]
    assert all(result.is_judged for result in served.results.values())


@pytest.mark.nightly
def test_without_a_judge_there_is_no_perplexity() -> None:
    with llama_of(load("storyteller")).serve() as server:
        table = run(there(server, judge=None))
    for result in table.results.values():
        assert not result.error
        assert result.is_judged
        assert result.values["perplexity"] is None
        assert result.values["repeats"] is not None
    assert all(row.mean is None for row in table.rows("perplexity"))


@pytest.mark.nightly
def test_a_server_that_dies_is_the_error_of_its_runs_and_the_table_ends() -> None:
    llama = llama_of(load("storyteller"))
    llama.dies_after = 3
    with llama.serve() as server:
        table = run(there(server))
    assert len(table.results) == len(table.plan.cells)
    assert all(result.error for result in table.results.values())


def test_a_table_that_is_stopped_does_not_wait_for_a_silent_server() -> None:
    stopped, ended = threading.Event(), list[bool]()

    def wait() -> None:
        # By then the table has had all that was sent, and nothing else would wake it.
        time.sleep(0.5)
        stopped.set()
        ended.append(server.released.wait(PATIENCE_S))

    with Llama(slow_after=2).serve() as server:
        server.wait = wait
        assert list(run_table(there(server), cancelled=stopped)) == []
        assert ended == [], "the server is silent still"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"settings": [*PLAN["settings"], {"strategy": "dola", "params": LENGTH}]},
            "Setting 3: dola does not work with a model behind an address",
        ),
        (
            {"settings": [{"strategy": "sampling", "params": {"typical_p": 0.5}}]},
            "Setting 1: typical_p = 0.5 is not allowed: no server is sent it",
        ),
        ({"judge": "endpoint:http://127.0.0.1:1/v1#m"}, "a server does not score a text"),
        ({"model": "endpoint:nonsense"}, "endpoint:ADDRESS#MODEL"),
    ],
)
def test_what_no_server_can_do_is_refused_before_the_first_run(
    changes: dict[str, object], says: str
) -> None:
    with Llama().serve() as server:
        with pytest.raises(EngineError) as caught:
            list(run_table(there(server, **changes)))
        assert says in clean(str(caught.value))
        assert not server.asked


def test_ids_that_only_number_the_texts_of_one_answer_count_in_no_variety() -> None:
    plan = read_plan({**PLAN, "judge": None})
    numbered = 0
    for name in list_completions():
        trace = import_answer(read(name), read_request_of(name))
        if not trace.outputs:
            continue
        found = _measure_trace(plan, Cell(0, 0, 0), trace, 1.0)
        invented = any(map(is_invented_id, trace.outputs[0].token_ids))
        numbered += invented
        assert found.token_ids == (() if invented else trace.outputs[0].token_ids), name
        assert found.values["tokens"] == len(trace.outputs[0].token_ids)
    assert numbered


@pytest.mark.nightly
def test_a_setting_may_draw_here_from_what_the_server_reports() -> None:
    own = {"strategy": "sampling", "params": {"sampler": "own", "max_new_tokens": 5, "top_k": 8}}
    llama = llama_of(load("storyteller"))
    with llama.serve() as server:
        table = run(there(server, settings=[own]))
    here = {"strategy": "sampling", "params": {"max_new_tokens": 5, "top_k": 8}}
    local = run(read_plan({**PLAN, "settings": [here]}))
    assert {cell: found.token_ids for cell, found in table.results.items()} == {
        cell: found.token_ids for cell, found in local.results.items()
    }
    assert not any(sent["n_predict"] > 1 for sent in llama.completions)
