"""The reliability programme in small: every part runs, and every part notices the fault it is there for."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import tempfile
import threading
from unittest.mock import patch

import pytest

from benchmarks.about import ROOT
from benchmarks.reliability import (
    __main__,
    answers,
    census,
    company,
    ends,
    faults,
    fuzz,
    liveness,
    load,
    memory,
    report,
    soak,
)
from benchmarks.reliability.cards import card
from benchmarks.reliability.parts import PARTS
from benchmarks.reliability.probe import probing
from benchmarks.reliability.requests import short_request
from engine.export import generation_config
from engine.loops.recorder import Recorder
from engine.models import loading
from engine.run.run import Run
from playground.jobs import registry
from playground.runs import stream
from playground.server import api
from tests.helpers.faults import PLACES, failing, messages_of
from tests.helpers.patience import comes_true
from tests.helpers.served import SERVED_HERE
from tests.helpers.server import process

pytestmark = SERVED_HERE


@pytest.fixture
def ended():
    """Return what returns the runs that have ended since."""
    ids = []
    told = logging.Handler()
    told.emit = lambda record: ids.append(record.args[0])
    told.addFilter(lambda record: record.msg.startswith("run %s ended"))
    engine = logging.getLogger("engine")
    before = engine.level
    engine.setLevel(logging.INFO)
    engine.addHandler(told)
    yield lambda: ids
    engine.removeHandler(told)
    engine.setLevel(before)


def judged(part, found):
    """Return what the programme makes of a part's figures; its card can be read."""
    result = part.judged(found, 1.0)
    assert card(result).startswith(f"{part.name}: ")
    json.dumps(result, allow_nan=False)
    return result


def broken(owner, name, change):
    """Put a function in the place of one, given that one."""
    return patch.object(owner, name, functools.partialmethod(change, getattr(owner, name)))


@pytest.mark.nightly
def test_no_step_is_lost_on_a_line_that_is_cut(here, ended):
    result = judged(load.PART, load.counted(here, 2, 3, ended))
    assert result["held"], result
    figures = result["figures"]
    assert (figures["runs"], figures["cuts"]) == (6, 6)
    assert figures["steps"] == 300


def without_a_step(writer, messages, events):
    for message in messages(writer, events):
        for step in message.get("steps", ()):
            step["index"] += step["index"] == 7
        yield message


@pytest.mark.nightly
def test_a_step_that_is_lost_or_doubled_is_noticed(here, ended):
    with broken(stream.MessageWriter, "messages", without_a_step):
        result = judged(load.PART, load.counted(here, 1, 0, ended))
    assert not result["held"]
    assert {"lost", "doubled"} <= set(result["missed"])


@pytest.mark.nightly
def test_a_run_that_is_decoded_twice_is_noticed(here, ended):
    begun, cut_presses, one_at_a_time = [], set(), threading.Lock()

    def begin_again(known, begin, kind, name, *asked):
        begun.append(name)
        # A page that has heard of its run resumes it instead of pressing again.
        comes_true(lambda: name in cut_presses)
        with one_at_a_time:
            known._jobs.pop(name, None)
            return begin(known, kind, name, *asked)

    def cut_once_begun(trip, cut):
        # Gradio drops what it has not begun when the line is cut, and then nothing would be decoded twice.
        comes_true(lambda: trip.press in begun)
        cut(trip)
        cut_presses.add(trip.press)

    def all_ended():
        # Each of them twice, and one more is asked for to compare with.
        comes_true(lambda: len(set(ended())) > 2 * load.RUNS)
        return ended()

    # Every line is cut before anything has been heard, so the page presses again each time.
    with (
        broken(registry.JobRegistry, "start", begin_again),
        broken(load._Trip, "_cut", cut_once_begun),
        patch.object(load, "_MOST_MESSAGES", 1),
        patch.object(load, "_CUT_WHILE_ASKING", 0),
    ):
        result = judged(load.PART, load.counted(here, 1, 0, all_ended))
    assert "decoded_twice" in result["missed"], result


def another_seed(run, init, request, *args, **kwargs):
    return init(run, dataclasses.replace(request, seed=5), *args, **kwargs)


@pytest.mark.nightly
def test_a_run_that_differs_next_to_others_is_noticed():
    assert judged(company.PART, company.measure(4, 0))["held"]
    with broken(company.Alone, "of", lambda alone, of, request: ((1,),)):
        assert judged(company.PART, company.measure(1, 0))["missed"] == ["unequal"]
    sampled = short_request("sampling", 0, 30)
    with broken(Run, "__init__", another_seed):
        other = company.Alone().of(sampled)
    assert other != company.Alone().of(sampled)


@pytest.mark.nightly
def test_faults_of_all_kinds_leave_nothing_behind():
    result = judged(faults.PART, faults.measure(len(PLACES), 1))
    assert result["held"], result
    assert result["figures"]["kinds"] == 8


def leaving_a_file(recorder, record, *args, **kwargs):
    tempfile.mkstemp()
    return record(recorder, *args, **kwargs)


@pytest.mark.nightly
def test_what_a_fault_leaves_behind_is_noticed():
    with patch.object(faults, "PATIENCE_S", 0.0), broken(Recorder, "record", leaving_a_file):
        result = judged(faults.PART, faults.measure(1, 0))
    assert result["missed"] == ["leaked"]
    assert "temporary files" in result["examples"][0]


def test_a_page_learns_of_a_run_that_cannot_be_written_down():
    with failing("journal", 1, RuntimeError("planted")):
        said = messages_of(company.requests_of(1)[0])
    assert [message["kind"] for message in said] == ["fail"]
    assert said[0]["strategy"] == "greedy"
    assert said[0]["error"].startswith("Something went wrong inside the playground")


@pytest.mark.nightly
def test_memory_keeps_its_limits():
    result = judged(memory.PART, memory.measure(6, 0))
    assert result["held"], result
    with patch.object(loading, "_evict_models", lambda *models, **room: None):
        assert judged(memory.PART, memory.measure(6, 0))["missed"] == ["beyond_limits"]


def test_a_model_that_could_not_leave_while_it_was_used_leaves_afterwards(monkeypatch):
    loading._CACHE.clear()
    first = loading.load("storyteller-draft")
    one = dataclasses.replace(loading.SETTINGS, max_loaded_models=1)
    monkeypatch.setattr(loading, "SETTINGS", one)
    with loading.pin_models(first):
        second = loading.load("foreign-draft")
        assert [entry.loaded for entry in loading._CACHE.values()] == [first, second]
    assert [entry.loaded for entry in loading._CACHE.values()] == [second]


def serving(code):
    """Serve from a process that does something else before."""
    return functools.partial(process, command=("-c", f"{code}\nimport app\napp.main()"))


@pytest.mark.nightly
def test_a_server_that_does_not_end_as_it_should_is_noticed():
    result = judged(ends.PART, ends.measure(1, 0))
    assert result["held"], result
    code = "import os\nleave = os._exit\nos._exit = lambda status: leave(3)"
    with patch.object(ends, "process", serving(code)):
        assert "other_status" in judged(ends.PART, ends.measure(1, 0))["missed"]


@pytest.mark.nightly
def test_a_server_ends_although_its_streams_do_not():
    code = (
        "import threading\nfrom gradio import Blocks\n"
        "Blocks.close = lambda *_, **__: threading.Event().wait()"
    )
    with patch.object(ends, "process", serving(code)):
        result = judged(ends.PART, ends.measure(1, 0))
    assert result["held"], result


@pytest.mark.nightly
def test_memory_that_grows_is_noticed():
    code = (
        "from playground.shell.listeners import Listeners\nkept, announce = [], Listeners.announce\n"
        "def keep(*args):\n    kept.append(b'x' * 50_000_000)\n    return announce(*args)\n"
        "Listeners.announce = keep"
    )
    with patch.object(soak, "process", serving(code)):
        result = judged(soak.PART, soak.measure(3, 0, warm=1))
    assert set(result["missed"]) == {"visits_grown_percent", "runs_grown_percent"}


@pytest.mark.by_day("10")
@pytest.mark.parametrize("number", [10, 60])
def test_nonsense_is_answered(here, number):
    result = judged(fuzz.PART, fuzz.answered(here, fuzz.requests(number, 0)))
    assert result["held"], result
    assert result["n"] == number
    assert min(result["figures"][kind] for kind in (answers.RESULT, answers.SENTENCE)) > 0

    def fail(request):
        raise RuntimeError("planted")

    calls = [one for one in fuzz.requests(10, 0) if one[0] == "call"]
    with patch.object(api, "decode", fail):
        assert judged(fuzz.PART, fuzz.answered(here, calls))["missed"] == [answers.NO_SENTENCE]


def test_nonsense_is_validated():
    result = judged(fuzz.VALIDATION, fuzz.validated(200, 0))
    assert result["held"], result
    with patch.object(generation_config, "parse_config", {}.__getitem__):
        assert not judged(fuzz.VALIDATION, fuzz.validated(40, 0))["held"]


@pytest.mark.nightly
def test_the_page_is_there_next_to_runs(here):
    result = judged(liveness.PART, liveness.watched(here, 1, 0))
    assert result["held"], result
    assert result["figures"]["runs_beside"] > 0
    with probing("http://127.0.0.1:1", ("/",)) as probe:
        pass
    assert probe.failed


@pytest.mark.nightly
def test_every_bad_input_gets_one_sentence(server, tmp_path):
    result = judged(census.PART, census.tried(server.url, 40, tmp_path))
    assert result["held"], result


def test_the_census_notices_what_is_accepted_fails_or_hangs():
    tally, never = census.CensusTally(), threading.Event()

    def fail():
        raise KeyError("planted")

    with patch.object(census, "PATIENCE_S", 0.0):
        tally.add(census.Attempt("engine", "hangs", lambda: (str(never.wait()), "")))
    never.set()
    tally.add(census.Attempt("engine", "fails", fail))
    tally.add(census.Attempt("api", "null", lambda: answers.judged(None)))
    tally.add(census.Attempt("engine", "is right", census.BadRequest().by_engine))
    figures = judged(census.PART, tally.measured())["figures"]
    counted = ("tried", "uncaught", "without_a_sentence", "hung", "accepted")
    assert [figures[name] for name in counted] == [4, 1, 1, 1, 1]


def test_a_part_that_does_not_end_is_ended():
    result = __main__.apart(PARTS["validation"], 1, 0, limit_s=0.01)
    assert not result["held"]
    assert result["examples"] == ["it had not ended after 0.01 s"]


def test_a_goal_of_speed_is_reported_and_fails_nothing():
    found = census.Measured(1, dict.fromkeys(ends.PART.goals, 0) | {"slowest_s": 60})
    result = judged(ends.PART, found)
    assert (result["held"], result["missed"]) == (True, ["slowest_s"])
    assert "held, but slow" in card(result)
    assert not judged(ends.PART, census.Measured(1, {}))["held"]


def test_the_kept_figures_are_whole_and_the_page_shows_them():
    data, page = (ROOT / name for name in report.FILES)
    kept = json.loads(data.read_text())
    assert [part["part"] for part in kept["parts"]] == list(PARTS)
    for part in kept["parts"]:
        assert {"part", "title", "n", "figures", "goals", "held"} <= set(part)
    assert page.read_text() == report.page_of(kept["parts"])


@pytest.mark.nightly
def test_a_result_takes_the_place_of_the_last_one(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    for name in ("assets", "docs"):
        (tmp_path / name).mkdir()
    for n in (10, 20):
        assert __main__.main(["validation", "--n", str(n), "--here"]) == 0
        result = __main__.measured(PARTS["validation"], n, 0)
        report.write(result)
    kept = json.loads((tmp_path / report.FILES[0]).read_text())
    assert [part["n"] for part in kept["parts"]] == [20]
    assert "n = 20: held" in (tmp_path / report.FILES[1]).read_text()
