"""Teacher-forced scores equal a plain forward's; figures of a text equal what a pencil gives."""

from __future__ import annotations

import math

import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis.likelihood import has_same_vocabulary, score_ids, score_trace
from engine.errors import ModelError
from engine.statistics import metrics
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT = [1, 5, 6, 7, 8, 9]
NEW = [10, 11, 10, 50, 2]


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_scores_are_those_of_a_plain_forward(name):
    loaded = golden_model(name)
    scores = score_ids(loaded, PROMPT, NEW)
    with torch.no_grad():
        logits = loaded.model(torch.tensor([PROMPT + NEW])).logits[0]
    plain = logits.double().log_softmax(-1)
    for i, token in enumerate(NEW):
        row = plain[len(PROMPT) - 1 + i]
        assert scores.logprobs[i] == pytest.approx(row[token].item(), abs=1e-4)
        assert scores.entropies[i] == pytest.approx(-(row.exp() * row).sum().item(), abs=1e-4)
    mean = sum(scores.logprobs) / len(NEW)
    assert scores.mean_logprob == pytest.approx(mean, abs=1e-5)
    assert scores.perplexity == pytest.approx(math.exp(-mean), rel=1e-4)


def test_an_encoder_reads_the_prompt():
    loaded = golden_model("t5")
    scores = score_ids(loaded, PROMPT, NEW)
    decoder = torch.tensor([[0, *NEW]])
    with torch.no_grad():
        logits = loaded.model(torch.tensor([PROMPT]), decoder_input_ids=decoder).logits[0]
    plain = logits.log_softmax(-1)
    wanted = [plain[i, token].item() for i, token in enumerate(NEW)]
    assert scores.logprobs == pytest.approx(wanted, abs=1e-4)


def test_a_run_scored_by_its_own_model_agrees_with_its_record():
    loaded = golden_model("llama")
    request = DecodeRequest("greedy", loaded, input_ids=PROMPT, params={"max_new_tokens": 12})
    trace = finished(request)
    scores = score_trace(trace, loaded, loaded)
    assert scores.logprobs == pytest.approx(metrics.emitted_logprobs(trace.steps), abs=1e-3)
    assert scores.perplexity == pytest.approx(trace.metrics["perplexity"], rel=1e-3)
    assert scores.entropies == pytest.approx([s.entropy for s in trace.steps], abs=1e-3)


def test_a_text_of_another_tokenizer_is_tokenized_again():
    base, writer = load("storyteller"), load("foreign-draft")
    request = DecodeRequest("greedy", writer, "Once upon a time", params={"max_new_tokens": 6})
    trace = finished(request)
    scores = score_trace(trace, base, writer)
    assert scores.recut
    text = trace.outputs[0].text
    ids = base.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert list(scores.token_ids) == ids != list(trace.outputs[0].token_ids)
    prompt = base.tokenizer("Once upon a time")["input_ids"]
    assert scores.logprobs == score_ids(base, prompt, ids).logprobs
    assert not score_trace(trace, writer, writer).recut


def test_what_does_not_fit_is_said():
    loaded = golden_model("llama")
    with pytest.raises(ModelError, match="context of 256"):
        score_ids(loaded, PROMPT, [5] * 260)
    with pytest.raises(ModelError, match="only 97 tokens"):
        score_ids(loaded, PROMPT, [97])
    assert score_ids(loaded, PROMPT, []).perplexity is None
    assert not has_same_vocabulary(loaded, golden_model("gpt2"))


def test_repetition_by_hand():
    # a b a b a b: bigrams ab ba ab ba ab, 2 distinct of 5; trigrams aba bab aba bab, 2 of 4;
    # 4-grams abab baba abab, 2 of 3; words a and b, 2 of 6.
    figures = metrics.repetition_metrics([7, 8, 7, 8, 7, 8])
    assert figures == pytest.approx(
        {"rep_2": 3 / 5, "rep_3": 2 / 4, "rep_4": 1 / 3, "distinct_1": 2 / 6, "distinct_2": 2 / 5}
    )
    assert metrics.repetition_rate([1, 2], 3) == 0.0
