"""What a grammar makes of the model's choice, asked by the page: exact, estimated, refused, and stopped."""

from __future__ import annotations

import dataclasses
import json
import threading
from types import SimpleNamespace

import pytest

from engine import DecodeRequest
from engine.analysis import grammar_comparison, grammar_draws
from engine.analysis.allowed_texts import list_allowed_texts
from engine.errors import Cancelled, EngineError
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.trace import json_io
from engine.trace.records import Parent
from playground.inspect import grammar_texts, questions
from playground.inspect.questions import answer_question
from playground.jobs.registry import JOBS
from tests.helpers.asking import kept
from tests.helpers.grammars import CHOICE, PROMPT, ask
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import finished

MANY = {"regex": " [a-z]+\\."}


def question_about(trace, **more):
    """Return the page's question about a run that it sends along."""
    bare = {"steps": [], "outputs": [], "emitted": [], "grammar": [], "metrics": {}, "notes": []}
    return {"action": "grammar_texts", "trace": {**json_io.trace_to_dict(trace), **bare}, **more}


@pytest.fixture(scope="module")
def trace():
    return finished(ask("greedy", CHOICE))


def test_a_small_grammar_has_the_exact_table_of_both(trace):
    found = answer_question(question_about(trace))["found"]
    exact = list_allowed_texts(ask("greedy", CHOICE))
    assert found["exact"]
    assert found["count"] == 3
    assert found["texts"] == [dataclasses.asdict(one) for one in exact.texts]
    assert (found["valid"], found["greedy"]) == (exact.valid, exact.greedy)


def test_a_run_of_this_server_needs_no_record(trace):
    LOGITS_CACHE.put("grammar", kept(ask("greedy", CHOICE)))
    named = answer_question({"action": "grammar_texts", "run": "grammar"})
    assert named == answer_question(question_about(trace))
    assert answer_question({"action": "grammar_texts", "run": "none"}) == {"forgotten": True}


def test_a_large_grammar_is_estimated_and_lists_the_texts_of_either_way(monkeypatch):
    monkeypatch.setattr(grammar_comparison, "DRAWS", 150)
    monkeypatch.setattr(grammar_texts, "MAX_TEXTS", 5)
    made = finished(
        DecodeRequest(
            "greedy",
            prompt="Lily was very",
            params={"structured_outputs": MANY, "max_new_tokens": 12},
        )
    )
    found = answer_question(question_about(made))["found"]
    assert not found["exact"]
    assert found["draws"] == 150
    assert found["low"] < found["valid"] < found["high"]
    assert found["effective"] >= 20
    assert len(found["texts"]) == 5 < found["count"]
    shares = [one["own"] for one in found["texts"]]
    assert shares == sorted(shares, reverse=True)


def sentence_of(question):
    event = SimpleNamespace(_data={"id": 4, **question})
    return json.loads(questions._handle_event(event))["error"]


def test_too_few_draws_say_nothing_but_one_sentence(monkeypatch):
    monkeypatch.setattr(grammar_comparison, "DRAWS", 100)
    monkeypatch.setattr(grammar_draws, "MIN_EFFECTIVE", 101)
    made = finished(ask("greedy", MANY, max_new_tokens=12))
    said = sentence_of(question_about(made))
    assert said.startswith("The 100 draws count like ")
    assert said.count(". ") == 0


def test_a_run_without_a_grammar_and_a_branch_are_refused(trace):
    free = finished(DecodeRequest("greedy", prompt=PROMPT, params={"max_new_tokens": 2}))
    assert "needs a grammar" in sentence_of(question_about(free))
    branch = dataclasses.replace(trace, parent=Parent("run", 0, 0, trace.prompt_ids[-1:]))
    assert "texts of a branch cannot be listed" in sentence_of(question_about(branch))
    assert "not valid JSON" in sentence_of(
        {"action": "grammar_texts", "trace": {"a": float("nan")}}
    )


@pytest.fixture
def endless(monkeypatch):
    """Analyses that go on until they are stopped."""
    begun = threading.Semaphore(0)

    def go_on(request, cancelled):
        begun.release()
        if not cancelled.wait(PATIENCE_S):
            pytest.fail("it was not stopped")
        raise Cancelled

    monkeypatch.setattr(grammar_texts, "compare_grammar", go_on)
    return begun


def ask_apart(question):
    """Ask in a thread; return it and the list that has its end."""
    ends: list[object] = []

    def work():
        try:
            ends.append(answer_question(question))
        except (EngineError, Cancelled) as error:
            ends.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, ends


def test_it_stops_at_once_and_a_second_visitor_goes_on(trace, endless):
    asked = [ask_apart(question_about(trace, press=f"visitor {n}")) for n in (1, 2)]
    assert all(endless.acquire(timeout=PATIENCE_S) for _ in asked)
    (first, first_ends), (second, second_ends) = asked
    JOBS.stop("visitor 1")
    first.join(PATIENCE_S)
    assert isinstance(first_ends[0], Cancelled)
    assert not second_ends
    JOBS.stop("visitor 2")
    second.join(PATIENCE_S)
    assert isinstance(second_ends[0], Cancelled)


@pytest.mark.nightly
def test_two_visitors_get_the_same_answer_at_the_same_time(trace):
    asked = [ask_apart(question_about(trace, press=f"visitor {n}")) for n in (1, 2)]
    for thread, _ in asked:
        thread.join(PATIENCE_S)
    [one], [other] = (ends for _, ends in asked)
    assert one == other == answer_question(question_about(trace))
