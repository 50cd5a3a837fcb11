"""Questions as they come: of a recent run without a pass of the model, of a trace, of a typed text."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest, decode
from engine.analysis import gallery
from engine.errors import ParameterError
from engine.inspection import step_logits
from engine.inspection.logits_cache import LogitsCache
from engine.inspection.rerun import replay_to_step
from engine.inspection.step_questions import StepQuestion, answer_question
from engine.inspection.why import explain_token
from engine.models.loading import load
from engine.trace.events import Finished
from engine.trace.records import ModelInfo
from tests.helpers.runs import finished
from tests.helpers.strategies import make, models_for

PROMPT = "Once upon a time, there was a"


@pytest.fixture(autouse=True)
def nothing_ready():
    step_logits._replayed_steps.clear()


def kept(request):
    """Return a run as the server keeps it, and its trace."""
    shelf = LogitsCache(10**9, 10**9, 4)
    run = decode(request, shelf.start_writer)
    *_, last = run
    assert isinstance(last, Finished)
    found = shelf.get(run.run_id)
    assert found is not None
    return found, last.trace


@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("greedy", {"repetition_penalty": 1.2}),
        ("sampling", {"top_k": 0, "num_return_sequences": 2}),
        ("sampling", {"top_k": 0, "top_p": 0.7}),
        ("watermark", {"top_k": 0}),
        ("watermark", {"scheme": "synthid", "keys": [3, 1, 4]}),
    ],
)
def test_what_is_kept_answers_as_the_run_made_again(strategy, params):
    run, trace = kept(make(strategy, **params))
    for index in (0, 5, len(trace.steps) - 1):
        step = trace.steps[index]
        near = step_logits._rebuild_step(run, step)
        assert near is not None
        again = replay_to_step(trace, index, *models_for(strategy))
        for token in (*step.emit, 3, 40, 77):
            ours, theirs = explain_token(near, token), explain_token(again, token)
            assert ours.sentence == theirs.sentence
            assert ours.facts == theirs.facts


def test_a_recent_run_is_answered_without_a_pass_of_its_model(monkeypatch):
    run, trace = kept(make("sampling", top_k=0))

    def forbidden(*args, **kwargs):
        pytest.fail("the step was made again")

    monkeypatch.setattr(step_logits, "replay_to_step", forbidden)
    answer, said = answer_question(run, StepQuestion(step=4, quick=True))
    assert answer.exact
    assert answer.chosen
    assert answer.token_id == trace.steps[4].emit[0]
    assert not said


def test_a_quick_answer_is_read_off_the_record_where_a_step_would_be_made_again(monkeypatch):
    trace = finished(make("beam_search", num_beams=3))
    models = models_for("beam_search")
    quick, _ = answer_question(trace, StepQuestion(step=3, quick=True), *models)
    assert not quick.exact
    assert "candidates saved with this run" in quick.scope
    exact, _ = answer_question(trace, StepQuestion(step=3), *models)
    assert exact.exact
    assert exact.token_id == quick.token_id
    # The step is ready now.
    monkeypatch.setattr(step_logits, "replay_to_step", pytest.fail)
    assert answer_question(trace, StepQuestion(step=3, quick=True), *models)[0].exact


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("greedy-1", "was taken, with 22.4 %, the largest probability of all."),
        ("sampling-1", "was drawn, with 0.69 % after the filters."),
        ("dola-1", "was taken, with 99.6 % after the filters."),
        ("watermark-1", "was drawn, with 86.6 % after the filters. It is green here."),
        ("beam_search-1", "was kept; the log-probability of its text is −"),
    ],
)
def test_what_a_recorded_run_says_of_the_step_it_opens_with(name, said):
    entry = gallery.find_entry(name)
    trace = gallery.open_entry(entry.file)
    answer, _ = answer_question(trace, StepQuestion(step=entry.look_at - 1, quick=True))
    assert said in answer.sentence
    if "largest" in said:
        candidates = trace.steps[entry.look_at - 1].candidates
        assert answer.token_id == max(candidates, key=lambda c: c.raw_logprob).token_id


def test_a_recent_run_has_words_for_its_tokens_in_a_quick_answer():
    params = {"max_new_tokens": 3, "num_beams": 2}
    run, trace = kept(DecodeRequest("beam_search", "storyteller", PROMPT, params=params))
    answer, _ = answer_question(run, StepQuestion(step=1, quick=True))
    assert not answer.exact
    assert "#" not in answer.sentence + answer.name
    assert answer.name == trace.pieces[answer.token_id].replace(" ", "·")


def test_a_typed_text_is_cut_where_it_would_stand():
    request = DecodeRequest("greedy", "storyteller", PROMPT, params={"max_new_tokens": 3})
    trace = finished(request)
    model = load("storyteller")
    answer, said = answer_question(trace, StepQuestion(step=1, text=" dragon"))
    assert model.pieces[answer.token_id] == " dragon"
    assert not said
    answer, said = answer_question(trace, StepQuestion(step=1, text=" dragonfly wings"))
    assert "tokens here; this is about the first" in said
    assert answer.sentence.count("“")


def test_a_run_whose_model_is_not_there_is_answered_from_its_record():
    trace = finished(make("sampling", top_k=0))
    trace = dataclasses.replace(trace, model=ModelInfo("no-such-model", vocab_size=97))
    step = trace.steps[2]
    for candidate in step.candidates[:4]:
        answer, _ = answer_question(trace, StepQuestion(step=2, token_id=candidate.token_id))
        assert not answer.exact
        assert answer.claim is None
        assert "no-such-model" in answer.scope
    other = next(i for i in range(97) if i not in {c.token_id for c in step.candidates})
    answer, _ = answer_question(trace, StepQuestion(step=2, token_id=other))
    assert "not among the 20 candidates saved with this step" in answer.sentence


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (StepQuestion(step=10), "the run has steps 0 to 9"),
        (StepQuestion(step=0, token_id=97), "token ids go from 0 to 96"),
        (StepQuestion(step=0, node_id=1), "only beam searches have nodes"),
        (StepQuestion(step=0, text="x" * 300), "write 1 to 200 characters"),
        (StepQuestion(step=0, text="x"), "the model has no tokenizer"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(question, said):
    trace = finished(make("sampling", top_k=0))
    with pytest.raises(ParameterError, match=said):
        answer_question(trace, question, *models_for("sampling"))


def test_a_run_that_comes_out_otherwise_is_answered_from_its_record():
    trace = finished(make("sampling", top_k=0))
    place = replay_to_step(
        dataclasses.replace(trace, seed=trace.seed + 1), 9, *models_for("sampling")
    )
    assert "cannot be repeated exactly" in place.refused
    assert not explain_token(place).exact


def test_a_run_with_a_function_of_its_own_is_answered_from_its_record():
    trace = finished(make("sampling", top_k=0))
    config = {**trace.config, "prefix_allowed_tokens_fn": "<callable allowed>"}
    place = replay_to_step(dataclasses.replace(trace, config=config), 3, *models_for("sampling"))
    assert place.refused
    assert not explain_token(place).exact
