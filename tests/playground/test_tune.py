"""The tune tab without a browser: a table fills, stops, goes on, and refuses in one sentence."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine.errors import EngineError
from engine.run.decoding import decode_to_trace
from engine.settings import SETTINGS
from playground.forms.links import open_link, request_from_link
from playground.forms.tune_form import read_table_form
from playground.inspect import tune_plan, tune_votes
from playground.jobs.registry import JOBS
from playground.storage import table_store
from playground.storage.database import Database
from playground.storage.journal import Journal
from playground.storage.run_store import RunStore
from playground.tabs import tune
from tests.helpers.jobs import begin, read
from tests.helpers.patience import PATIENCE_S

LENGTH = {"max_new_tokens": 8}
FORM = {
    "prompts": 'Once upon a time\n{"prompt": "The dragon opened the door and", "reference": "said"}',
    "columns": [
        {"strategy": "greedy", "values": LENGTH, "name": "Greedy"},
        {"strategy": "sampling", "values": {**LENGTH, "temperature": 1.2}},
    ],
    "seeds": 2,
}
RUNS = 2 * (1 + 2)


def cells_of(messages):
    return {
        (c["setting"], c["prompt"], c["seed"]): c["text"]
        for message in messages
        for c in message.get("cells", ())
    }


def kept(path, process):
    return Journal(RunStore(Database(str(path), process), 3600.0, 1_000_000))


def test_a_table_fills_and_ends_with_every_text_and_measure():
    messages = list(read(tune.TUNE, FORM))
    assert [messages[0]["kind"], messages[1]["kind"], messages[-1]["kind"]] == [
        "plan",
        "table",
        "done",
    ]
    plan, done = messages[0], messages[-1]
    assert [one["name"] for one in plan["settings"]] == ["Greedy", "Sampling, temperature 1.2"]
    assert (done["done"], done["all"]) == (RUNS, RUNS)
    texts = cells_of(messages)
    assert len(texts) == RUNS
    view = {one["name"]: one for one in done["view"]}
    assert {"repeats", "perplexity", "reference"} <= set(view)
    for measure in view.values():
        assert sorted(row["setting"] for row in measure["rows"]) == [0, 1]
        assert all(0 <= cell["share"] <= 1 for row in measure["rows"] for cell in row["cells"])
    [greedy] = [row for row in view["perplexity"]["rows"] if row["setting"] == 0]
    assert [len(cell["ticks"]) for cell in greedy["cells"]] == [1, 1]
    codes = [c["code"] for message in messages for c in message.get("cells", ())]
    assert any("generate(" in code for code in codes if code)


def test_what_opens_a_setting_gives_the_text_of_its_cell():
    messages = list(read(tune.TUNE, FORM))
    setting = messages[0]["settings"][1]
    request = request_from_link(dict_of(setting["link"]))
    assert decode_to_trace(request).outputs[0].text == cells_of(messages)[1, 0, 0]
    assert json.loads(setting["config"])["temperature"] == 1.2
    assert setting["form"]["values"]["temperature"] == 1.2


def dict_of(link):
    from urllib.parse import parse_qsl

    return dict(parse_qsl(link.removeprefix("?")))


def test_a_stopped_table_continues_also_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(table_store, "JOURNAL", kept(tmp_path / "journal.db", "one"))
    monkeypatch.setattr(tune, "_UPDATE_S", 0.0)
    asked, before = {**FORM, "table": "a" * 32}, []
    job = begin(tune.TUNE, asked)
    for message in job.read():
        before.append(message)
        if cells_of([message]):
            JOBS.stop(job.id)
    assert before[-1]["kind"] == "done"
    first = cells_of(before)
    assert 0 < before[-1]["done"] < RUNS or len(first) == RUNS
    table_store.JOURNAL.close(PATIENCE_S)
    monkeypatch.setattr(table_store, "JOURNAL", kept(tmp_path / "journal.db", "two"))
    work = tune.TUNE.take_over(asked)
    after = list(JOBS.start(tune.TUNE, "another", asked, work).read())
    known = cells_of(after[:2])
    assert known == first
    assert after[-1]["done"] == RUNS
    assert cells_of(after) == cells_of(read(tune.TUNE, FORM))
    other = list(read(tune.TUNE, {**FORM, "table": "b" * 32}))
    assert not cells_of(other[:2])


def test_two_visitors_get_their_own_tables_at_once():
    changed = {**FORM, "prompts": "Tom and his mom"}
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda form: list(read(tune.TUNE, form)), (FORM, changed)))
    assert [messages[-1]["done"] for messages in both] == [RUNS, RUNS // 2]
    assert cells_of(both[0]) == cells_of(read(tune.TUNE, FORM))


def test_the_plan_is_counted_before_it_runs():
    assert tune_plan.act(FORM)["runs"] == RUNS
    list(read(tune.TUNE, FORM))
    assert tune_plan.act(FORM)["seconds"] > 0
    assert read_table_form({**FORM, "speed": True}).runs_alone


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"prompts": ""}, "There is no prompt"),
        ({"prompts": "a\n" * 10_000}, "There are 10000 prompts"),
        ({"prompts": None}, "There is no prompt"),
        ({"columns": []}, "There is no setting"),
        ({"columns": 3}, "settings = 3"),
        ({"columns": [3]}, "settings = 3"),
        ({"columns": [{"strategy": "nothing"}]}, "strategy = 'nothing'"),
        (
            {"columns": [{"strategy": "sampling", "values": {"temperature": -1}}]},
            "Setting 1: temperature",
        ),
        ({"columns": FORM["columns"] * 13}, "more than 24 settings"),
        ({"seeds": 11}, "seeds = 11"),
        ({"seeds": ""}, "seeds"),
        ({"schema": "{"}, "The schema is not valid JSON."),
        ({"pattern": "("}, "pattern = '('"),
    ],
    ids=str,
)
def test_what_is_wrong_is_one_sentence_and_nothing_runs(change, says):
    asked = {**FORM, **change}
    [message] = read(tune.TUNE, asked)
    assert message["kind"] == "failed"
    assert says in message["error"]
    assert "\n" not in message["error"]


def test_an_error_of_every_run_is_said_once():
    *_, done = read(tune.TUNE, {**FORM, "model": "no-such-model"})
    assert done["kind"] == "done"
    assert "no-such-model" in done["error"]


def test_a_public_playground_refuses_a_table_of_many_runs(monkeypatch):
    monkeypatch.setattr("engine.analysis.tune.plan.SETTINGS", replace(SETTINGS, public=True))
    many = {**FORM, "prompts": "\n".join(f"Prompt {n}" for n in range(50)), "seeds": 10}
    with pytest.raises(EngineError, match="a public playground allows 200"):
        read_table_form(many)


def test_a_link_fills_the_form_and_names_what_is_wrong():
    from urllib.parse import urlencode

    link = "?" + urlencode({"tab": "tune", "form": json.dumps(FORM)})
    assert open_link(link, None)["form"] == FORM
    wrong = "?" + urlencode({"tab": "tune", "form": json.dumps({**FORM, "seeds": 0})})
    with pytest.raises(EngineError, match="seeds = 0"):
        open_link(wrong, None)


def test_votes_are_counted_for_the_visitor_who_sends_them_and_nobody_else(tmp_path, monkeypatch):
    monkeypatch.setattr(table_store, "JOURNAL", kept(tmp_path / "journal.db", "one"))
    asked = {**FORM, "table": "c" * 32}
    list(read(tune.TUNE, asked))
    vote = {"prompt": 0, "pair": [0, 1], "preferred": 1}
    found = tune_votes.act({**asked, "votes": [vote] * 6})["measure"]
    assert [(row["setting"], row["all"]["mean"]) for row in found["rows"]] == [(1, 1.0), (0, 0.0)]
    assert "in 6 of 6 votes (p = 0.031)" in found["verdict"]
    # The other measures of the table qualify the votes.
    assert "not recorded" not in found["verdict"]
    assert tune_votes.act({**asked, "votes": []}) == {"measure": None}
    again = list(read(tune.TUNE, asked))[-1]
    assert all(one["name"] != "votes" for one in again["view"])
    with pytest.raises(EngineError, match="votes"):
        tune_votes.act({**asked, "votes": [{"prompt": 5, "pair": [0, 1], "preferred": 1}]})
