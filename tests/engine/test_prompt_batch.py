"""A list of prompts: the record of each is that of a run alone; and what padding does to a batch."""

from __future__ import annotations

import dataclasses
import threading

import pytest
import torch

from engine import DecodeRequest, LoadedModel, decode_prompts, load
from engine.analysis.padding import ALONE, LEFT, RIGHT, UNMASKED, compare_padding
from engine.errors import Cancelled, EngineError, ModelError, ParameterError
from engine.loops import rows
from engine.run.decoding import decode_to_trace
from engine.serving import prompt_batch
from tests.helpers.models import tiny_llama
from tests.helpers.patience import PATIENCE_S

PROMPTS = ["The dog", "Once upon a time, there was a little", "A cat"]


def test_each_prompt_has_the_record_of_a_run_alone():
    request = DecodeRequest("sampling", params={"max_new_tokens": 12, "top_k": 20}, seed=3)
    together = decode_prompts(request, PROMPTS)
    assert [trace.prompt for trace in together] == PROMPTS
    assert any(rows.SHARED_PASSES_NOTE in trace.notes for trace in together)
    for prompt, trace in zip(PROMPTS, together, strict=True):
        alone = decode_to_trace(dataclasses.replace(request, prompt=prompt))
        assert trace.outputs == alone.outputs
        assert trace.prompt_ids == alone.prompt_ids
        for one, other in zip(trace.steps, alone.steps, strict=True):
            assert [c.token_id for c in one.candidates] == [c.token_id for c in other.candidates]
            assert one.logsumexp == pytest.approx(other.logsumexp, abs=2e-5)


@pytest.mark.parametrize("prompts", [[], ["a"] * 21, ["The dog", 5]], ids=str)
def test_a_list_that_is_not_valid_begins_no_run(prompts, monkeypatch):
    monkeypatch.setattr(prompt_batch, "decode", pytest.fail)
    with pytest.raises(ParameterError):
        decode_prompts(DecodeRequest("greedy"), prompts)


def test_a_run_that_fails_stops_the_others(monkeypatch):
    runs, decode = [], prompt_batch.decode
    monkeypatch.setattr(prompt_batch, "decode", lambda one: runs.append(decode(one)) or runs[-1])
    # Only the model knows that the second one is too long for it.
    request = DecodeRequest("greedy", params={"max_new_tokens": 300})
    with pytest.raises(EngineError, match="context"):
        decode_prompts(request, ["The dog", "so " * 2000])
    assert all(run.cancelled for run in runs)


def test_a_run_that_begins_while_another_fails_is_stopped_too(monkeypatch):
    runs, decode, stopping = {}, prompt_batch.decode, threading.Event()

    def begin(one):
        run = runs[one.prompt[:3]] = decode(one)
        if one.prompt == "The dog":
            assert stopping.wait(PATIENCE_S)
        else:
            cancel = run.cancel
            monkeypatch.setattr(run, "cancel", lambda: (cancel(), stopping.set()))
        return run

    monkeypatch.setattr(prompt_batch, "decode", begin)
    request = DecodeRequest("greedy", params={"max_new_tokens": 300})
    with pytest.raises(EngineError, match="context"):
        decode_prompts(request, ["The dog", "so " * 2000])
    assert runs["The"].cancelled


def test_a_caller_that_leaves_stops_every_run():
    with pytest.raises(Cancelled):
        decode_prompts(DecodeRequest("greedy"), PROMPTS, is_stopped=lambda: True)


def test_only_left_padding_with_a_mask_changes_nothing():
    loaded = LoadedModel(tiny_llama(2, seed=3, eos_token_id=None))
    loaded.tokenizer = load("storyteller").tokenizer
    short, long = compare_padding(loaded, [[5, 9], [7, 11, 4, 20, 8, 6]], max_new_tokens=8)
    assert (short.token_count, short.pad_count, long.pad_count) == (2, 4, 0)
    assert short.texts[LEFT] == short.texts[ALONE]
    assert short.probabilities[LEFT] == pytest.approx(short.probabilities[ALONE], abs=1e-6)
    for wrong in (UNMASKED, RIGHT):
        assert abs(short.probabilities[wrong] - short.probabilities[ALONE]) > 1e-3
    assert set(long.texts.values()) == {long.texts[ALONE]}
    with torch.no_grad():
        own = loaded.model(torch.tensor([[5, 9]])).logits[0, -1].softmax(-1).max().item()
    assert short.probabilities[ALONE] == pytest.approx(own, abs=1e-6)


def test_an_encoder_has_no_wrong_side():
    with pytest.raises(ModelError, match="encoder"):
        compare_padding(load("captioner"), [[5], [5, 9]])
