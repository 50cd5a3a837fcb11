"""A table of prompts, settings and seeds: equal to single runs, resumed, and careful in its verdict."""

from __future__ import annotations

import csv
import io
import json
import threading

import pytest

from engine import Table, read_plan, run_table
from engine.analysis.tune.cell_result import CellResult, result_from_dict, result_to_dict
from engine.analysis.tune.measures import measure_variety
from engine.analysis.tune.plan import Cell
from engine.analysis.tune.table_files import TableFolder, to_csv, to_json, to_markdown
from engine.cli.main import main
from engine.errors import BusyError
from engine.run.decoding import decode, decode_to_trace
from tests.helpers.tune_plans import LENGTH, PLAN


@pytest.fixture(scope="module")
def table():
    plan = read_plan(PLAN)
    found = Table(plan)
    for result in run_table(plan):
        found.add(result)
    return found


def place(result):
    return result.cell


def test_every_run_equals_a_single_run(table):
    plan = table.plan
    # Nothing is random in two of the four settings: they run once for each prompt.
    assert len(plan.cells) == len(table.results) == 2 * (1 + 2 + 2 + 1)
    for cell in plan.cells:
        alone, found = decode_to_trace(plan.request(cell)), table.results[cell]
        assert found.token_ids == alone.outputs[0].token_ids
        assert found.text == alone.outputs[0].text
        assert found.values["repeats"] == alone.metrics["rep_3"]
        assert found.values["perplexity"] > 1
        assert found.is_judged
        assert not found.error


def test_a_setting_without_chance_counts_for_every_seed(table):
    assert table.find(0, 1, 1) is table.find(0, 1, 0) is not None
    assert table.values("perplexity", 0).shape == (2, 2)
    [row] = [row for row in table.rows("tokens") if row.setting == 0]
    assert [len(values) for values in row.values] == [1, 1]
    ids = [table.find(0, 0, 0).token_ids] * 2
    assert table.values("variety", 0)[0, 0] == measure_variety(ids) <= 0.5


def test_the_files_say_what_the_table_says(table):
    lines = list(csv.reader(io.StringIO(to_csv(table))))
    assert [line[2] for line in lines[1:]] == [str(cell.seed) for cell in table.plan.cells]
    data = json.loads(json.dumps(to_json(table)))
    assert set(data["measures"]) == set(table.plan.measures)
    assert data["measures"]["reference"]["order"][-1]["mean"] is not None
    assert sorted(map(result_from_dict, data["runs"]), key=place) == sorted(
        table.results.values(), key=place
    )
    text = to_markdown(table, "repeats")
    assert text.startswith(table.verdict("repeats"))
    assert text.count("\n| ") == 1 + len(table.plan.settings)


@pytest.mark.nightly
def test_a_stopped_table_continues_from_what_is_done(tmp_path):
    plan, stop = read_plan(PLAN), threading.Event()
    folder = TableFolder(tmp_path, plan)
    for count, result in enumerate(run_table(plan, cancelled=stop)):
        folder.store_result(result)
        if count == 4:
            stop.set()
    done = list(folder.load_results())
    assert 4 <= len(done) < len(plan.cells)
    asked = []

    def count_runs(request):
        asked.append(request)
        return decode(request)

    rest = list(run_table(plan, done, decode=count_runs))
    assert {r.cell for r in done}.isdisjoint(r.cell for r in rest if r.is_judged)
    assert {r.cell for r in (*done, *rest)} == set(plan.cells)
    assert len(asked) == len(plan.cells) - len({r.cell for r in done})


def test_stored_runs_belong_to_their_plan(tmp_path):
    plan = read_plan(PLAN)
    cell, path = plan.cells[-1], tmp_path / "runs.jsonl"
    TableFolder(tmp_path, plan).store_result(
        CellResult(cell, "x", (1,), "length", {"repeats": 0.0})
    )
    with path.open("a") as file:
        file.write('{"key": "cut')
    fewer = read_plan({**PLAN, "prompts": PLAN["prompts"][1:]})
    [found] = TableFolder(tmp_path, fewer).load_results()
    assert found.cell == Cell(0, cell.setting, cell.seed)
    assert not list(
        TableFolder(tmp_path, read_plan({**PLAN, "judge": "storyteller"})).load_results()
    )
    other = CellResult(cell, "x", (1,), "length", {"repeats": None}, "", 1.5, False)
    assert result_from_dict(json.loads(json.dumps(result_to_dict(other)))) == other


def test_a_run_that_the_model_refuses_leaves_the_others():
    refused = {"strategy": "greedy", "params": {**LENGTH, "suppress_tokens": [99_999]}}
    plan = read_plan({"prompts": ["Once"], "settings": [PLAN["settings"][0], refused]})
    good, bad = sorted(run_table(plan), key=place)
    assert good.text
    assert not good.error
    assert "suppress_tokens = 99999 is not allowed" in bad.error
    assert bad.finish_reason == "error"


def test_a_full_queue_is_waited_for(monkeypatch):
    monkeypatch.setattr("engine.analysis.tune.run_table._BUSY_S", 0.01)
    refusals = iter([True, True])

    def refuse(request):
        if next(refusals, False):
            raise BusyError("full")
        return decode(request)

    plan = read_plan({"prompts": ["Once"], "settings": [{"strategy": "greedy", "params": LENGTH}]})
    [result] = run_table(plan, decode=refuse)
    assert result.text
    assert next(refusals, None) is None


def test_a_reader_who_leaves_stops_the_runs():
    stop = threading.Event()
    running = run_table(read_plan(PLAN), cancelled=stop)
    next(running)
    running.close()
    assert stop.is_set()


def test_speed_is_measured_alone():
    measured = {**PLAN, "measures": ["tokens_per_s"]}
    assert read_plan(measured).runs_alone
    assert not read_plan(PLAN).runs_alone


def test_the_command_writes_the_table_and_continues(tmp_path, capsys):
    plan = tmp_path / "plan.yaml"
    (tmp_path / "prompts.txt").write_text("Once upon a time\n")
    plan.write_text(
        "prompts_file: prompts.txt\nseeds: 2\nsettings:\n"
        "  - {strategy: sampling, params: {max_new_tokens: 6}, grid: {temperature: [0.5, 1.5]}}\n"
    )
    assert main(["tune", str(plan)]) == 0
    shown = capsys.readouterr().out
    assert "| Sampling, temperature 0.5 |" in shown
    assert len(list((tmp_path / "plan" / "traces").iterdir())) == 4
    before = (tmp_path / "plan" / "runs.jsonl").read_text()
    assert main(["tune", str(plan), "--rank-by", "tokens"]) == 0
    assert (tmp_path / "plan" / "runs.jsonl").read_text() == before
    assert main(["tune", str(plan), "--rank-by", "nothing"]) == 2
    assert "\n" not in capsys.readouterr().err.strip()
