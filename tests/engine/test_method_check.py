"""What a run measures after its text: it says how far it is, may be stopped, and the text stands."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest, LoadedModel, decode
from engine.loops.teacher_forced import is_causal
from engine.run.scheduler import RUN_QUEUE
from engine.trace.events import Checking, Finished, Started, StepRecorded, TextDelta
from tests.helpers.drafting import PROMPT
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.patience import PATIENCE_S

RUNS = 100
DRAWN = {"do_sample": True, "distribution_runs": RUNS}
NEW = 6


def request(strategy="prompt_lookup", loaded=None, **params):
    loaded = loaded or LoadedModel(fresh_model("llama"))
    values = {"max_new_tokens": NEW, **params}
    return DecodeRequest(strategy, loaded, input_ids=PROMPT, params=values, seed=1)


def checks(events, what):
    return [(e.done, e.total) for e in events if isinstance(e, Checking) and what in e.what]


@pytest.mark.nightly
def test_the_short_runs_are_counted_after_the_text():
    events = list(decode(request(**DRAWN)))
    assert checks(events, "short runs") == [(n, RUNS) for n in range(RUNS)]
    kinds = [type(event) for event in events]
    assert kinds[0] is Started
    assert kinds.index(Checking) > kinds.index(TextDelta)
    # The last step carries what was found, so it comes after the check.
    assert kinds[-1] is Finished
    assert events[-1].trace.steps[-1].detail.report.distributions


def test_every_check_says_what_it_counts():
    events = list(decode(request(plain_run=True)))
    assert checks(events, "against the main model alone") == [(0, NEW)]
    assert checks(events, "plain run") == [(n, NEW) for n in range(1, NEW + 1)]


def test_the_greedy_path_next_to_beams_is_counted_where_no_beam_went_along_it():
    loaded = LoadedModel(fresh_model("llama"))
    params = {"num_beams": 2, "max_new_tokens": 12}
    beams = DecodeRequest("beam_search", loaded, input_ids=[11, 4, 7], params=params)
    events = list(decode(beams))
    path = checks(events, "greedy path")
    assert path, "the beams of this prompt leave the greedy path"
    first, _ = path[0]
    assert path == [(n, 12) for n in range(first, 12)]
    assert len(events[-1].trace.steps[-1].detail.greedy.token_ids) == 12


def passes_of_text(**params):
    """Return how many forward passes a run takes before its checks."""
    whole = list(decode(request(**params)))[-1].trace
    return sum(step.forward_passes for step in whole.steps)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("params", "what", "count"),
    [
        (DRAWN, "The comparison of distributions", f"of {RUNS} runs"),
        ({"plain_run": True}, "The plain run", f"of {NEW} tokens"),
    ],
)
def test_a_check_that_is_stopped_is_left_out_and_the_text_stays(params, what, count):
    whole = list(decode(request(**params)))[-1].trace
    # One pass of a check after the text (and after the one that reads all of it at once).
    free = passes_of_text(**params) + 2
    loaded = LoadedModel(fresh_model("llama"))
    is_causal(loaded)  # two passes, once for each model
    with gate(loaded.model, free) as held:
        run = decode(request(loaded=loaded, **params))
        held.wait()
        run.cancel()
        held.open()
        events = list(run)
    trace = events[-1].trace
    assert trace.outputs == whole.outputs, "the text, and why it ended"
    assert trace.outputs[0].finish_reason == "length"
    (note,) = [note for note in trace.notes if "left out" in note]
    assert note.startswith(f"{what} is left out: the run was stopped after ")
    assert note.endswith(f"{count}.")
    report = trace.steps[-1].detail.report
    assert (report.distributions, report.plain_tokens, report.plain_s) == ((), 0, 0.0)


@pytest.mark.nightly
@pytest.mark.parametrize("leave", ["close", "forget"])
def test_a_check_ends_with_the_reader(leave):
    loaded = LoadedModel(fresh_model("llama"))
    free = passes_of_text(**DRAWN) + 2
    with gate(loaded.model, free) as held:
        run = decode(request(loaded=loaded, **DRAWN))
        thread = run._thread
        held.wait()
        if leave == "close":
            run.close()
        del run
        held.open()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert held.passes < free + RUNS, "all of the check was made for nobody"
    assert RUN_QUEUE._tickets == []


def test_a_text_that_is_stopped_is_not_checked():
    loaded = LoadedModel(fresh_model("llama"))
    is_causal(loaded)  # two passes, once for each model
    with gate(loaded.model, free=1) as held:
        run = decode(
            request(
                loaded=loaded,
                **DRAWN,
            )
        )
        held.wait()
        run.cancel()
        held.open()
        events = list(run)
    assert not any(isinstance(event, Checking) for event in events)
    assert events[-1].trace.outputs[0].finish_reason == "cancelled"
    assert any(isinstance(event, StepRecorded) for event in events)


def test_text_and_steps_are_there_before_anything_is_measured():
    loaded = LoadedModel(fresh_model("llama"))
    is_causal(loaded)  # two passes, once for each model
    with gate(loaded.model, free=passes_of_text()) as held:
        run = decode(request(loaded=loaded))
        held.wait()
        before = []
        while len(before) < 3 or not isinstance(before[-1], Checking):
            before.append(next(run))
        held.open()
        rest = list(run)
    whole = rest[-1].trace
    text = ""
    for event in before:
        if isinstance(event, TextDelta):
            text = text[: event.keep_chars] + event.text
    assert text == whole.outputs[0].text
    *steps, last = [event.step for event in before if isinstance(event, StepRecorded)]
    assert tuple(steps) == whole.steps[:-1]
    # What was found is in the trace's last step alone.
    assert last.detail.report is None
    assert whole.steps[-1].detail.report is not None
    assert dataclasses.replace(whole.steps[-1], detail=last.detail) == last
    # Nothing is told twice.
    assert not any(isinstance(event, TextDelta | StepRecorded) for event in rest)
