"""Objects of generate() that a Python caller gives: each acts as in generate(), and is named in the trace."""

from __future__ import annotations

import pytest
import torch
import transformers

from engine import STRATEGIES, DecodeRequest, decode, load
from engine.analysis.dial_map.build import map_dial
from engine.errors import EngineError, ExportError, ParameterError
from engine.export.plan import plan_export
from engine.inspection.trace_logits import config_from_trace
from engine.run.decoding import decode_to_trace
from engine.run.request import check_request
from engine.run.run import batch_key
from engine.serving.fields import to_fields
from tests.helpers.runs import trace_of_run

PROMPT = "Once upon a time"


class NoRepeats(transformers.LogitsProcessor):
    """Removes every token that the text has already."""

    def __call__(self, input_ids, scores):
        return scores.scatter(1, input_ids, -float("inf"))


class AfterTokens(transformers.StoppingCriteria):
    """Ends a text at a length."""

    def __init__(self, length):
        self.length = length

    def __call__(self, input_ids, scores, **kwargs):
        del scores, kwargs
        return torch.full((len(input_ids),), input_ids.shape[1] >= self.length)


class Kept(transformers.TextStreamer):
    """Keeps what a TextStreamer would print."""

    def __init__(self, tokenizer):
        super().__init__(tokenizer, skip_prompt=True)
        self.text, self.ended = "", 0

    def on_finalized_text(self, text, stream_end=False):
        self.text += text
        self.ended += stream_end


def request(strategy="greedy", **objects):
    return DecodeRequest(strategy, prompt=PROMPT, params={"max_new_tokens": 24}, **objects)


def test_they_act_as_in_generate():
    loaded = load("storyteller")
    kept, own = Kept(loaded.tokenizer), Kept(loaded.tokenizer)
    ids = loaded.tokenizer(PROMPT, return_tensors="pt").input_ids
    length = ids.shape[1] + 9
    trace = decode_to_trace(
        request(
            logits_processor=[NoRepeats()], stopping_criteria=[AfterTokens(length)], streamer=kept
        )
    )
    expected = loaded.model.generate(
        ids,
        do_sample=False,
        max_new_tokens=24,
        logits_processor=transformers.LogitsProcessorList([NoRepeats()]),
        stopping_criteria=transformers.StoppingCriteriaList([AfterTokens(length)]),
        streamer=own,
    )
    assert list(trace.outputs[0].token_ids) == expected[0, ids.shape[1] :].tolist()
    assert trace.outputs[0].finish_reason == "stop"
    assert kept.text == own.text
    assert kept.ended == own.ended == 1
    assert [stage.name for stage in trace.steps[0].stages] == ["NoRepeats"]


def test_a_draft_is_streamed_token_by_token():
    loaded = load("storyteller")
    kept = Kept(loaded.tokenizer)
    trace = decode_to_trace(request("prompt_lookup", streamer=kept))
    assert kept.text == trace.outputs[0].text


def test_a_trace_names_them_and_nothing_is_made_of_it():
    trace = decode_to_trace(request(logits_processor=[NoRepeats()]))
    assert trace.config["logits_processor"] == "<callable NoRepeats>"
    with pytest.raises(ExportError, match="logits_processor was a Python object"):
        plan_export(trace)
    with pytest.raises(EngineError, match="the recording does not contain it"):
        config_from_trace(trace, STRATEGIES["greedy"])


def test_no_other_run_waits_for_them():
    assert batch_key(check_request(request())) is not None
    assert batch_key(check_request(request(stopping_criteria=[AfterTokens(9)]))) is None


@pytest.mark.parametrize(
    ("strategy", "objects"),
    [
        ("greedy", {"logits_processor": NoRepeats()}),
        ("greedy", {"stopping_criteria": [5]}),
        ("greedy", {"streamer": print}),
        ("beam_search", {"streamer": Kept(None)}),
        ("custom", {"logits_processor": [NoRepeats()]}),
    ],
    # Objects have another address in every process.
    ids=["one processor", "a number", "a function", "beams", "a custom method"],
)
def test_what_cannot_be_used_is_refused(strategy, objects):
    params = {"method": "mirostat"} if strategy == "custom" else {}
    with pytest.raises(ParameterError, match=f"{next(iter(objects))} = "):
        check_request(DecodeRequest(strategy, prompt=PROMPT, params=params, **objects))


def test_they_stay_in_their_process_and_have_no_dial_map():
    wanted = request("sampling", logits_processor=[NoRepeats()])
    with pytest.raises(ParameterError, match="replicas"):
        to_fields(wanted)
    with pytest.raises(ParameterError, match="dial map"):
        list(map_dial(wanted, "temperature", 0.5, 1.0))


def test_an_error_of_a_processor_ends_the_run_with_a_sentence():
    def broken(input_ids, scores):
        raise ValueError("no")

    with pytest.raises(Exception, match=r"[A-Z].*\.$"):
        trace_of_run(decode(request(logits_processor=[broken])))
