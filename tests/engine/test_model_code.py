"""Whatever a model's or transformers' code raises: one sentence, and errors of ours stay our own."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import pytest
import torch
import transformers

from engine import DecodeRequest, decode
from engine.analysis.dial_map.build import map_dial
from engine.analysis.fork import branch_point, branch_request, make_branch
from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.likelihood import score_trace
from engine.analysis.many_draws import draw_many
from engine.analysis.score_with_other_model import compare_models
from engine.analysis.watermark_detection import build_watermark_config, detect_text
from engine.errors import Cancelled, EngineError
from engine.inspection import influence, step_logits
from engine.inspection.influence import InfluenceQuestion, compute_influence
from engine.inspection.influence_methods import METHODS
from engine.inspection.step_questions import StepQuestion, answer_question, score_typed_text
from engine.loops import next_token, recorder
from engine.model_code import ModelCall, ModelCodeError, ModelWork, find_model_code_error
from engine.models import loading, meta_model
from engine.models.loading import LoadedModel
from engine.trace.events import Failed, Finished
from engine.trace.records import Trace
from playground.shell.guard import error_message
from tests.helpers.models import tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.seams import find_seams, raise_at
from tests.helpers.strategies import OURS
from tests.helpers.talker import said, talker
from tests.helpers.talkers import PROMPT, assistant, target
from tests.helpers.tokenizers import tokenizer_of


class OddError(Exception):
    """An error that no library has."""


KINDS = (ValueError, OddError, AttributeError, KeyError, AssertionError, NotImplementedError)
SHORT = {"max_new_tokens": 2}
CAUSE = "The cause is in the model's code or in transformers"


def raising(error: BaseException):
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error.with_traceback(None)  # not that of an earlier call

    return fail


def request(name: str = "greedy", **params: Any) -> DecodeRequest:
    return DecodeRequest(
        name,
        target(),
        PROMPT,
        params={"max_new_tokens": 3, **params},
        assistant=assistant(name),
    )


SEAMS = [
    (transformers.LlamaForCausalLM, "forward", "the forward pass"),
    (transformers.GenerationMixin, "_prefill", "the forward pass"),
    (transformers.GenerationMixin, "prepare_inputs_for_generation", "the forward pass"),
    (transformers.GenerationMixin, "_get_logits_processor", "transformers' generate()"),
    (transformers.PreTrainedTokenizerBase, "__call__", "the tokenizer"),
    (transformers.RepetitionPenaltyLogitsProcessor, "__call__", "the filter RepetitionPenalty"),
    (transformers.MaxLengthCriteria, "__call__", "the stopping criteria"),
]


@pytest.mark.parametrize(("owner", "name", "task"), SEAMS)
def test_the_sentence_names_model_strategy_task_and_kind(monkeypatch, owner, name, task):
    monkeypatch.setattr(owner, name, raising(OddError("the little bear")))
    error = failed(request(repetition_penalty=1.2))
    assert isinstance(error, ModelCodeError)
    assert str(error).startswith(
        f"tiny cannot do this with Greedy search: {task} ended in OddError. {CAUSE}"
    )
    assert "bear" not in str(error)


def test_outputs_of_another_form_are_the_models_fault(monkeypatch):
    model = tiny_llama(2)
    monkeypatch.setattr(model, "forward", lambda **inputs: {"logits": None})
    error = failed(DecodeRequest("greedy", LoadedModel(model, name="odd"), input_ids=[1, 2]))
    assert str(error).startswith(
        "odd cannot do this with Greedy search: the forward pass ended in "
    )


@pytest.mark.parametrize(
    ("owner", "name"), [(recorder, "make_observation"), (next_token, "choose_tokens")]
)
def test_an_error_of_ours_stays_internal(monkeypatch, owner, name):
    monkeypatch.setattr(owner, name, raising(ValueError()))
    assert "internal error (ValueError" in str(failed(request()))


def test_memory_that_runs_out_keeps_its_sentence(monkeypatch):
    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", raising(MemoryError()))
    assert str(failed(request())).startswith("Not enough memory for this run")


def test_a_tokenizer_that_fails_on_the_first_steps_still_ends_the_run(monkeypatch):
    tokenizer = tokenizer_of("sentencepiece")
    loaded = LoadedModel(target().model, tokenizer, "mute")
    ids = tokenizer(PROMPT)["input_ids"]
    monkeypatch.setattr(type(tokenizer), "decode", raising(OddError()))
    error = failed(DecodeRequest("greedy", loaded, input_ids=ids))
    assert str(error).startswith(
        "mute cannot do this with Greedy search: the tokenizer ended in OddError."
    )


def test_a_callers_own_function_is_named():
    def allowed(batch: int, ids: torch.Tensor) -> list[int]:
        raise OddError

    error = failed(request(prefix_allowed_tokens_fn=allowed))
    assert str(error).startswith("prefix_allowed_tokens_fn = ")
    assert str(error).endswith("is not allowed: it raised OddError.")


def test_questions_name_the_model_too(monkeypatch):
    trace = finished(request())
    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", raising(OddError()))
    with pytest.raises(
        ModelCodeError, match=r"^tiny cannot do this: the forward pass ended in Odd"
    ):
        score_trace(trace, target())


def test_the_page_gets_the_sentence_where_nobody_named_the_model():
    with pytest.raises(ValueError, match="Unrecognized model") as found:
        transformers.AutoConfig.for_model("no such kind")
    text = error_message(found.value)
    assert text.startswith("The model cannot do this: its code ended in ValueError.")


def test_control_flow_and_own_errors_pass_through():
    for error in (Cancelled(), EngineError("no"), KeyboardInterrupt(), MemoryError()):
        with pytest.raises(type(error)) as found, ModelWork("m"), ModelCall("it"):
            raise error
        assert found.value is error


def test_the_error_crosses_processes():
    error = ModelCodeError("ValueError", "1a2b", "the tokenizer", "tiny", "Greedy")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (ModelCodeError, str(error))
    assert str(again).template == str(error).template


def _run(name: str) -> list[str]:
    params = {"repetition_penalty": 1.1, "stop_strings": ["q"], "bad_words_ids": ["bear"]}
    return _end(request(name, **params))


def _end(wanted: DecodeRequest) -> list[str]:
    *_, last = decode(wanted)
    assert isinstance(last, Finished | Failed)
    return [str(last.error)] if isinstance(last, Failed) else list(last.trace.notes)


def _load(name: str = "storyteller-draft", **given: Any) -> list[str]:
    with loading._CACHE_LOCK:
        loading._CACHE.clear()
    given = given or {"prompt": "Once"}
    return _end(DecodeRequest("greedy", name, params=SHORT, **given))


def _continue_with_text(trace: Trace) -> None:
    made = make_branch(branch_point(trace, 1), text=" bear</s> saw", tokenizer=target().tokenizer)
    for event in decode(branch_request(trace, made, model=target())):
        if isinstance(event, Failed):
            raise event.error


def _method(model: Any, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return model.generate(input_ids, do_sample=False, max_new_tokens=2)


REQUESTS: dict[str, Any] = {
    "messages": lambda: DecodeRequest("greedy", talker(), messages=said("bear"), params=SHORT),
    "grammar": lambda: request(structured_outputs={"choice": [" the", " saw"]}),
    "function": lambda: DecodeRequest(
        "custom", target(), PROMPT, params={"method": _method, **SHORT}
    ),
}


def _ask(question: Any) -> list[str]:
    # An answer at hand would cross few seams.
    step_logits._replayed_steps.clear()
    influence._answer_cache.clear()
    try:
        question(_sampled_trace())
    except Exception as error:
        return [error_message(error)]
    return []


@cache
def _sampled_trace() -> Trace:
    return finished(request("sampling"))


QUESTIONS: dict[str, Any] = {
    "why": lambda t: answer_question(t, StepQuestion(1, token_id=7), target()),
    "typed": lambda t: score_typed_text(t, 1, " bear", target()),
    "likelihood": lambda t: score_trace(t, target()),
    "draws": lambda t: list(draw_many(request("sampling"), 2)),
    "compare": lambda t: compare_models(t, target(), target()),
    "branch": _continue_with_text,
    "detect": lambda t: detect_text(PROMPT, target(), build_watermark_config({})),
    "outputs": lambda t: rerun_generate(t, target(), output_hidden_states=True),
    "map": lambda t: list(map_dial(request("sampling"), "temperature", 0.5, 1.0, stops=[0.5, 1.0])),
    **{
        method: lambda t, method=method: compute_influence(
            t, InfluenceQuestion(1, method), model=target()
        )
        for method in METHODS
    },
}
WORK = {
    **{name: lambda name=name: _run(name) for name in OURS},
    **{name: lambda name=name: _end(REQUESTS[name]()) for name in REQUESTS},
    "load": _load,
    "picture": lambda: _load("captioner", image="example:scene-1"),
    "sound": lambda: _load("transcriber", audio="example:speech-1"),
    **{name: lambda name=name: _ask(QUESTIONS[name]) for name in QUESTIONS},
}


QUOTING = ("function", "outputs")
"""Work that quotes an error: that of a caller's own function, and why generate() refuses."""


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", WORK)
def test_no_exception_at_any_seam_is_called_internal(name):
    """Every call from our code into transformers, found by watching, raises once."""
    _sampled_trace()  # not part of the work
    work, wrong = WORK[name], []
    work()  # imports and caches
    seams = find_seams(work)
    assert len(seams) >= 5
    for number, seam in enumerate(seams):
        texts: list[str] = []
        raise_at(
            seam, KINDS[number % len(KINDS)]("secret"), lambda texts=texts: texts.extend(work())
        )
        wrong += [(seam, text) for text in texts if _is_wrong(text, name)]
    # A folder that could not be read is remembered as refused, and it is only the injected error that was to blame.
    meta_model._REFUSALS.clear()
    assert not wrong


def _is_wrong(text: str, name: str) -> bool:
    tells = "secret" in text and name not in QUOTING
    return "internal" in text or "inside the playground" in text or tells


def test_an_error_that_no_model_raised_is_not_taken_for_one():
    with pytest.raises(ValueError, match="invalid literal") as found:
        int("x")
    assert find_model_code_error(found.value) is None
