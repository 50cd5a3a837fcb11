"""What is said of a custom method's step: its candidates are those of its first token, and nothing is guessed."""

from __future__ import annotations

import csv
import io

import pytest
import torch

from engine import DecodeRequest
from engine.analysis.fork import branch_point
from engine.errors import EngineError
from engine.export.steps_csv import steps_csv
from engine.inspection.logits_cache import CachedRun
from engine.inspection.step_questions import StepQuestion, answer_question
from engine.inspection.what_if import SettingsChange, apply_change
from engine.strategies import STRATEGIES
from engine.trace.records import chosen_emit_index, chosen_token_id
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from visualizers import summarize_trace


def pairs(model, input_ids, generation_config=None, **kwargs):
    """Write what the model likes least but four, then a token that nobody asked it about."""
    ids = input_ids
    for extra in (11, 12):
        likes = model(input_ids=ids).logits[:, -1].argsort(-1, descending=True)
        ids = torch.cat([ids, likes[:, 3:4], torch.tensor([[extra]])], -1)
    return ids


def blind(model, input_ids, generation_config=None, **kwargs):
    return torch.cat([input_ids, torch.tensor([[11, 12]])], -1)


def run(function):
    params = {"method": function, "max_new_tokens": 8}
    return finished(DecodeRequest("custom", golden_model("llama"), input_ids=[5, 9], params=params))


@pytest.fixture(scope="module")
def trace():
    return run(pairs)


def test_the_candidates_are_those_of_the_first_token(trace):
    step = trace.steps[0]
    assert step.emit[1] == 11
    assert (chosen_emit_index(step), chosen_token_id(step)) == (0, step.emit[0])
    own = next(c for c in step.candidates if c.token_id == step.emit[0])
    assert own.rank == 3
    shown = summarize_trace(trace, ("candidates", "chart", "formula"))[0]
    assert shown["text"]["p"][0] == pytest.approx(2.718281828**own.raw_logprob, rel=1e-4)
    assert shown["text"]["p"][1] is None
    assert shown["chart"]["surprise"] == pytest.approx(-own.raw_logprob / 0.693147, rel=1e-3)
    row = next(csv.DictReader(io.StringIO(steps_csv(trace))))
    assert row["rank_in_model"] == "4"
    assert branch_point(trace, 1).kept_ids == list(trace.steps[0].emit)


def test_no_formula_claims_how_the_token_was_chosen(trace):
    lines = summarize_trace(trace, ("formula",))[0]["formula"]["lines"]
    forms = {line["form"] for line in lines}
    assert "surprise" in forms
    assert not forms & {"argmax", "top_k", "softmax_temperature", "race"}


def test_why_tells_what_is_recorded_and_names_no_rule(trace):
    first, second = trace.steps[0].emit
    found, _ = answer_question(trace, StepQuestion(0))
    assert (found.token_id, found.chosen) == (first, True)
    assert "was taken, with" in found.sentence
    assert "greedy" not in found.sentence
    assert "largest" not in found.sentence
    assert "only be seen while it runs" in found.scope
    quick, _ = answer_question(trace, StepQuestion(0, quick=True))
    assert quick.scope == found.scope
    unseen, _ = answer_question(trace, StepQuestion(0, token_id=second))
    assert unseen.chosen
    assert unseen.sentence.endswith("; what decided it was not seen.")


def test_what_if_is_refused_with_the_reason(trace):
    asked = CachedRun(STRATEGIES["custom"], None, trace, list(trace.steps))
    with pytest.raises(
        EngineError, match="the method's own code decides, and only its model calls"
    ):
        apply_change(asked, SettingsChange())


def test_a_step_of_which_nothing_was_seen_has_no_figures():
    blank = run(blind)
    (step,) = blank.steps
    assert step.candidates == ()
    shown = summarize_trace(blank, ("chart",))[0]
    assert shown["chart"] == {"surprise": None, "entropy": None, "entropy_used": None}
    assert shown["text"]["bits"] == [None, None]
    assert len(blank.emitted[0]) == 2
    found, _ = answer_question(blank, StepQuestion(0))
    assert found.sentence.endswith("; what decided it was not seen.")
