"""Models that look or listen: generate()'s own tokens under every strategy, or one sentence that says why not."""

from __future__ import annotations

import dataclasses

import pytest
from transformers import WatermarkingConfig

from engine import DecodeRequest, LoadedModel
from engine.errors import ModelError, ParameterError
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from engine.trace import json_io
from tests.helpers.media_models import (
    KINDS,
    LANGUAGES,
    TASKS,
    by_common_generate,
    given,
    media_model,
    native,
)
from tests.helpers.models import golden_model
from tests.helpers.references import BEAMS, params_of
from tests.helpers.runs import failed, finished, reread
from tests.helpers.sentences import clean

pytestmark = pytest.mark.filterwarnings("ignore")

NEW, SEED = 10, 3
# Drawing together with beams is what Whisper's own generate() never does, so the common one is asked.
WHISPERS = {"sampling": {"temperature": 1.0}, "watermark": {"temperature": 1.0}}
OF_GENERATE = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "beam_search": BEAMS,
    "beam_sampling": {**BEAMS, "do_sample": True},
    "watermark": {"do_sample": True, "watermarking_config": WatermarkingConfig()},
    "prompt_lookup": {},
}


def asked(name, strategy, **more):
    params = {"max_new_tokens": NEW, **params_of(strategy)}
    return DecodeRequest(
        strategy,
        media_model(name),
        prompt=KINDS[name].prompt,
        params=params,
        seed=SEED,
        **{**given(name), **more},
    )


def texts(trace):
    return [list(output.token_ids) for output in trace.outputs]


def without_end(name, rows):
    """Whisper's own generate() leaves the end out."""
    return [[i for i in row if i != 2] for row in rows] if name == "whisper" else rows


def speech(name):
    return {"language": "en", "task": "transcribe"} if name == "whisper" else {}


@pytest.mark.by_day("llava-greedy", "llava-sampling", "llava-beam_sampling")
@pytest.mark.parametrize("strategy", OF_GENERATE)
@pytest.mark.parametrize("name", KINDS)
def test_equal_to_generate(name, strategy):
    trace = finished(asked(name, strategy, speech=speech(name)))
    kwargs = {"max_new_tokens": NEW, "pad_token_id": 0, **OF_GENERATE[strategy]}
    if name == "whisper" and "beam" in strategy:
        expected = by_common_generate(SEED, **kwargs)
    else:
        more = {**speech(name), **(WHISPERS.get(strategy, {}) if name == "whisper" else {})}
        expected = native(name, SEED, **kwargs, **more)
    found = texts(trace)
    assert without_end(name, found) == without_end(name, expected)
    assert any(len(row) > 3 for row in found)
    assert not [note for note in trace.notes if "missing" in note]
    report = getattr(trace.steps[-1].detail, "report", None)
    assert report is None or (report.parting is None and report.plain_identical in (None, True))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", KINDS)
def test_another_picture_or_sound_gives_another_text(name):
    strategy, told = "sampling", speech(name)
    one, other = (
        finished(asked(name, strategy, speech=told, **given(name, seed))) for seed in (0, 1)
    )
    assert one.media[0].sha256 != other.media[0].sha256
    assert [s.logsumexp for s in one.steps] != [s.logsumexp for s in other.steps]


@pytest.mark.by_day("contrastive_search-blip", "diverse_beam_search-llava", "dola-vit-gpt2")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - set(OF_GENERATE) - {"custom"}))
def test_every_other_strategy_works_or_says_why_not(name, strategy):
    kind = STRATEGIES[strategy].assistant
    assistant = None if kind == "none" else speaking_draft(media_model(name).tokenizer)
    request = dataclasses.replace(asked(name, strategy, speech=speech(name)), assistant=assistant)
    reason = incompatibility_reason(STRATEGIES[strategy], request.model, assistant)
    if reason is not None:
        assert clean(str(failed(request))) == reason
        return
    assert strategy not in KINDS[name].refuses
    trace = finished(request)
    assert trace.outputs[0].token_ids
    assert not [note for note in trace.notes if "missing" in note]
    if assistant is not None:
        # A draft that sees no picture guesses badly, and what it guesses changes nothing.
        kwargs = {"max_new_tokens": NEW, "pad_token_id": 0, **speech(name)}
        expected = native(name, SEED, **kwargs)
        assert without_end(name, texts(trace)) == without_end(name, expected)


def speaking_draft(tokenizer):
    return LoadedModel(golden_model("llama_draft").model, tokenizer, "draft")


@pytest.mark.by_day("git", "llava")
@pytest.mark.parametrize("name", KINDS)
def test_the_trace_says_what_was_given_and_the_run_can_be_made_again(name):
    from engine.run.request import request_from_trace

    trace = reread(asked(name, "sampling", speech=speech(name)))
    (info,) = trace.media
    assert info.kind == KINDS[name].given
    assert (trace.speech or {}) == speech(name)
    again = finished(
        dataclasses.replace(request_from_trace(trace, media_model(name)), top_candidates=20)
    )
    assert texts(again) == texts(trace)
    assert again.media == trace.media
    assert json_io.loads(json_io.dumps(again)).media == trace.media


@pytest.mark.parametrize("name", KINDS)
def test_a_fork_continues_from_the_same_picture_or_sound(name):
    from engine.analysis.fork import branch_point, branch_request, make_branch

    trace = finished(asked(name, "greedy", speech=speech(name)))
    made = make_branch(branch_point(trace, 3), token_id=trace.steps[3].emit[0])
    going_on = branch_request(trace, made, model=media_model(name))
    forked = finished(dataclasses.replace(going_on, params={"max_new_tokens": NEW - 4}))
    assert texts(forked)[0] == texts(trace)[0][4:]


@pytest.mark.parametrize("name", KINDS)
def test_a_model_that_needs_one_says_so(name):
    request = dataclasses.replace(asked(name, "greedy"), image=None, audio=None, prompt="the bear")
    needs = media_model(name).capabilities.needs
    if needs is None:
        assert finished(request).media == ()
        return
    error = failed(request)
    assert isinstance(error, ParameterError)
    assert error.parameter == needs
    clean(str(error))


def test_a_model_that_reads_text_takes_no_picture():
    request = DecodeRequest("greedy", golden_model("llama"), input_ids=[5], **given("git"))
    error = failed(request)
    assert isinstance(error, ParameterError)
    assert error.parameter == "image"
    clean(str(error))


def test_one_of_another_kind_is_refused():
    error = failed(DecodeRequest("greedy", media_model("whisper"), **given("git")))
    assert isinstance(error, ParameterError)
    assert error.parameter == "image"


def test_a_model_without_its_processor_says_what_is_missing():
    bare = LoadedModel(media_model("whisper").model, None, "bare")
    error = failed(DecodeRequest("greedy", bare, **given("whisper")))
    assert isinstance(error, ModelError)
    clean(str(error))


@pytest.mark.parametrize("told", [{}, {"language": "de"}, {"language": "en", "task": "translate"}])
@pytest.mark.parametrize("times", [False, True])
def test_whisper_gets_its_language_and_task(told, times):
    told = {**told, "return_timestamps": times}
    trace = finished(asked("whisper", "greedy", speech=told))
    begins = list(trace.prompt_ids)
    assert begins[0] == 90
    assert begins[1] in LANGUAGES.values()
    if "language" in told:
        assert begins[1] == LANGUAGES[f"<|{told['language']}|>"]
        assert begins[2] == TASKS[told.get("task", "transcribe")]
    assert (95 in begins) == (not times)
    expected = native("whisper", SEED, max_new_tokens=NEW, **told)
    assert without_end("whisper", texts(trace)) == without_end("whisper", expected)


def test_whispers_own_rules_are_stages_of_a_step():
    trace = finished(asked("whisper", "greedy", speech={"return_timestamps": True}))
    names = [stage.name for stage in trace.steps[0].stages]
    assert any("Suppress" in name for name in names)
    assert any("Time" in name for name in names)
    removed = {c.token_id: c.removed_by for s in trace.steps for c in s.candidates if c.removed_by}
    assert removed
    assert not {5, 6, 7} & set(trace.outputs[0].token_ids)


@pytest.mark.parametrize(
    ("told", "parameter"),
    [
        ({"language": "klingon"}, "speech.language"),
        ({"language": 3}, "speech.language"),
        ({"task": "sing"}, "speech.task"),
        ({"return_timestamps": "yes"}, "speech.return_timestamps"),
        ({"temperature": 1}, "speech"),
        ("en", "speech"),
    ],
)
def test_what_whisper_refuses(told, parameter):
    error = failed(asked("whisper", "greedy", speech=told))
    assert isinstance(error, ParameterError)
    assert error.parameter == parameter
    clean(str(error))
