"""The page's question what a step looked at: of a run that is remembered, of one that is sent, and what is refused."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

from engine import DecodeRequest, decode, load
from engine.errors import Cancelled
from engine.inspection.influence import InfluenceQuestion
from engine.inspection.influence import compute_influence as looked_at
from engine.inspection.influence_methods import METHODS
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.trace import json_io
from playground.inspect import influence, questions
from tests.helpers.patience import wait_for
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
    """A run that the page made, and its trace."""
    made = decode(REQUEST, LOGITS_CACHE.start_writer)
    return made.run_id, list(made)[-1].trace


def ask(**question):
    event = SimpleNamespace(_data={"id": 7, "action": "looked", **question})
    reply = json.loads(questions._handle_event(event))
    assert reply.pop("id") == 7
    return reply


def test_a_run_made_here_is_asked_by_its_id_and_layer(run):
    run_id, trace = run
    told = ask(run=run_id, step=3)
    [part] = told["parts"]
    theirs = looked_at(trace, InfluenceQuestion(3), model=load("storyteller")).parts[0]
    assert part["values"] == pytest.approx(theirs.row(), rel=1e-4)
    assert (part["layers"], part["heads"]) == theirs.weights.shape[:2]
    assert part["ids"] == [*trace.prompt_ids, *(s.emit[0] for s in trace.steps[:3])]
    assert "".join(part["pieces"]).strip().startswith("Once upon a time")
    assert told["word"] == trace.pieces[trace.steps[3].emit[0]]
    sizes = [part["values"][at] for at in part["top"]]
    assert sizes == sorted(part["values"], reverse=True)[:10]
    assert max(part["strengths"]) == 1
    shares = [part["values"][at] / sizes[0] for at in part["top"]]
    assert part["lengths"] == pytest.approx(shares, abs=1e-3)
    one = ask(run=run_id, step=3, layer=2, head=1)["parts"][0]["values"]
    assert one == pytest.approx(theirs.row(2, 1), rel=1e-4)
    assert one != part["values"]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_is_not_remembered_is_asked_with_its_trace(run, method):
    run_id, trace = run
    data = json_io.trace_to_dict(trace)
    sent = {**data, "steps": data["steps"][:4], "outputs": [], "metrics": {}}
    theirs = ask(trace=sent, step=3, method=method)
    assert theirs == ask(run=run_id, step=3, method=method)
    assert theirs["method"] == method
    clean(theirs["caveat"])


def test_only_who_knows_a_runs_name_can_ask_about_it(run):
    """The page of another visitor has other names; a name that is no run's tells nothing."""
    for name in ("nobody's", run[0][:-1], run[0].upper() + "x", 17, None, ["x"]):
        assert ask(run=name, step=0) == {"forgotten": True}


def test_signed_numbers_are_ordered_by_their_size(run):
    part = ask(run=run[0], step=5, method="leave-one-out")["parts"][0]
    sizes = [abs(part["values"][at]) for at in part["top"]]
    assert sizes == sorted(map(abs, part["values"]), reverse=True)[:10]
    assert min(part["values"]) < 0 < max(part["values"])


@pytest.mark.parametrize(
    "question",
    [
        {"step": 99},
        {"step": -1},
        {"step": "1"},
        {"step": True},
        {"step": 0, "method": "guess"},
        {"step": 0, "method": ["attention"]},
        {"step": 0, "layer": 99},
        {"step": 0, "layer": -1},
        {"step": 0, "head": 10**12},
        {"step": 0, "head": "first"},
        {"step": 0, "node_id": 3},
        {"step": 0, "at": 5},
        {"step": 0, "trace": []},
        {"step": 0, "trace": {"schema": "decoding-trace/1"}},
        {"step": 0, "trace": float("nan")},
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(run, question):
    reply = ask(**{"run": run[0], **question})
    assert set(reply) - {"templates"} == {"error"}, reply
    clean(reply["error"])


def test_a_visitor_who_asks_again_or_stops_gives_up_what_was_asked_before(run, monkeypatch):
    begun, replies = threading.Event(), []

    def waiting(asked, look, cancelled):
        begun.set()
        wait_for(cancelled)
        raise Cancelled

    for then in ({"action": "stop", "press": "me"}, {"step": 1}):
        begun.clear()
        with monkeypatch.context() as patched:
            patched.setattr(influence, "compute_influence", waiting)
            first = threading.Thread(
                target=lambda: replies.append(ask(run=run[0], step=2, press="me"))
            )
            first.start()
            wait_for(begun)
        assert ask(run=run[0], step=0, press="somebody else")["parts"]
        assert not replies
        ask(**{"run": run[0], "press": "me", **then})
        first.join()
        assert replies == [{"superseded": True}]
        replies.clear()
