"""The page's question why: of a run that is remembered, of one that is sent, and what is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from engine import DecodeRequest
from engine.inspection.rerun import replay_to_step
from engine.inspection.why import explain_token
from engine.trace import json_io
from playground.inspect import questions
from tests.helpers.jobs import read_run
from tests.helpers.sentences import clean

REQUEST = DecodeRequest(
    "sampling",
    "storyteller",
    "Once upon a time, there was",
    params={"max_new_tokens": 6, "top_p": 0.8},
    seed=5,
)


@pytest.fixture(scope="module")
def run():
    """The id of a run, and its trace as a page sends it: up to a step, without later ones."""
    # Whether a model has to be loaded first, and is told of, depends on what was tested before.
    told = [json.loads(text) for text in read_run(REQUEST)]
    messages = [message for message in told if message["kind"] != "progress"]
    header = {k: v for k, v in messages[0]["header"].items() if k != "fields"}
    steps = [step for message in messages for step in message.get("steps", [])]
    pieces = {**header["pieces"]}
    for message in messages:
        pieces |= message.get("pieces", {}) | message.get("rest", {}).get("pieces", {})
    data = {**header, "pieces": pieces, "steps": steps, "outputs": [], "metrics": {}, "notes": []}
    return messages[0]["run"], data


def ask(**question):
    event = SimpleNamespace(_data={"id": 7, "action": "why", **question})
    reply = json.loads(questions._handle_event(event))
    assert reply.pop("id") == 7
    return reply


def test_a_run_made_here_is_asked_by_its_id(run):
    run_id, data = run
    trace = json_io.trace_from_dict(data)
    taken = ask(run=run_id, step=2)["answer"]
    assert taken["chosen"]
    assert taken["token_id"] == trace.steps[2].emit[0]
    place = replay_to_step(trace, 2)
    for token in (11, 300, trace.steps[2].candidates[-1].token_id):
        answer, theirs = (
            ask(run=run_id, step=2, token_id=token)["answer"],
            explain_token(place, token),
        )
        assert answer["sentence"] == theirs.sentence
        assert [fact["value"] for fact in answer["facts"]] == [f.value for f in theirs.facts]
        assert answer["exact"]
        assert "claim" not in answer


def test_a_run_that_is_not_remembered_is_asked_with_its_trace(run):
    run_id, data = run
    assert ask(run="nobody's", step=0) == {"forgotten": True}
    assert ask(run=17, step=0) == {"forgotten": True}
    slim = [
        {k: v for k, v in s.items() if k not in ("candidates", "stages")} for s in data["steps"]
    ]
    sent = {**data, "steps": [*slim[:3], data["steps"][3]]}
    theirs = ask(trace=sent, step=3, text=" dragon")["answer"]
    assert theirs == ask(run=run_id, step=3, text=" dragon")["answer"]
    assert theirs["name"].startswith("·d")


def test_a_typed_text_has_odds_by_the_run_and_by_its_trace(run):
    run_id, data = run
    sent = {**data, "steps": data["steps"][:4]}
    odds = ask(action="odds", run=run_id, step=3, text="dragon")["odds"]
    assert odds == ask(action="odds", trace=sent, step=3, text=" dragon")["odds"]
    assert set(odds) == {"token_id", "name", "logprob", "rank", "note"}
    assert odds["name"].startswith("·d")
    assert ask(action="odds", run="nobody's", step=0, text="x") == {"forgotten": True}
    for wrong in ({}, {"text": ""}, {"text": 3}, {"text": "x", "step": 99}):
        reply = ask(action="odds", run=run_id, **{"step": 0, **wrong})
        assert set(reply) - {"templates"} == {"error"}, reply
        clean(reply["error"])


@pytest.mark.parametrize(
    "question",
    [
        {"step": 99},
        {"step": -1},
        {"step": "1"},
        {"step": True},
        {"step": 0, "token_id": 10**12},
        {"step": 0, "token_id": 9999},
        {"step": 0, "text": ["x"]},
        {"step": 0, "text": ""},
        {"step": 0, "node_id": 3},
        {"step": 0, "trace": []},
        {"step": 0, "trace": {"schema": "decoding-trace/1"}},
        {"step": 0, "trace": float("nan")},
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(run, question):
    reply = ask(**{"run": run[0], **question})
    assert set(reply) - {"templates"} == {"error"}, reply
    clean(reply["error"])
