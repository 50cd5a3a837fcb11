"""A step costs the same however long the text is: what is read and counted again has a bound."""

from __future__ import annotations

import random

import pytest

from engine import DecodeRequest, decode
from engine.models.loading import LoadedModel
from engine.models.text import REPLACEMENT, Detokenizer, OutputDecoder
from engine.trace.events import TextDelta
from tests.helpers.models import tiny_llama
from tests.helpers.runs import finished
from tests.helpers.tokenizers import make_sentencepiece, make_tokenizer, make_unigram
from visualizers.text.summary import TextSummary

TOKENIZERS = {
    "bytes": lambda: make_tokenizer(400),
    "sentencepiece": make_sentencepiece,
    "unigram": make_unigram,
}
MOST = 100
"""Tokens that a step may read again."""


def counting(tokenizer):
    """Return a list to which the tokenizer adds how many tokens it reads with each call."""
    counts, decode = [], tokenizer.decode
    tokenizer.decode = lambda ids, **options: counts.append(len(ids)) or decode(ids, **options)
    return counts


def applied(shown, delta):
    return shown if delta is None else shown[: delta[0]] + delta[1]


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]()


@pytest.mark.parametrize("seed", range(3))
def test_a_running_text_is_what_the_whole_says_also_where_it_is_revised(tokenizer, seed):
    draw = random.Random(seed)
    before = [draw.randrange(len(tokenizer)) for _ in range(6)]
    reader = OutputDecoder(tokenizer, before)
    running, shown, ids = Detokenizer(reader), "", []
    for _ in range(300):
        kept = len(ids) if draw.random() < 0.8 else draw.randrange(len(ids) + 1)
        ids[kept:] = [draw.randrange(len(tokenizer)) for _ in range(draw.randint(1, 3))]
        shown = applied(shown, running.update(ids, kept=kept))
        assert shown == reader.text(ids).rstrip(REPLACEMENT)
    assert applied(shown, running.update(ids, final=True)) == reader.text(ids)


def test_a_step_reads_no_more_tokens_the_longer_the_text_and_its_prompt_are(tokenizer):
    ids = tokenizer("the little bear saw a red ball")["input_ids"] * 80
    counts = counting(tokenizer)
    running = Detokenizer(OutputDecoder(tokenizer, ids * 4))
    read = []
    for n in range(1, len(ids)):
        counts.clear()
        running.update(ids[:n], kept=n - 1)
        read.append(sum(counts))
    assert max(read[40:]) <= MOST


def long_model(tokenizer):
    ends = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": 0}
    size = {"vocab_size": len(tokenizer), "max_position_embeddings": 2048}
    return LoadedModel(tiny_llama(1, seed=0, **size, **ends), tokenizer, "long")


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("name", "params"), [("sampling", {}), ("beam_search", {"num_beams": 5})])
def test_a_run_reads_its_text_in_pieces_and_sends_all_of_it(name, params):
    tokenizer = make_tokenizer(400)
    counts = counting(tokenizer)
    params = {"max_new_tokens": 300, "min_new_tokens": 300, **params}
    request = DecodeRequest(name, long_model(tokenizer), prompt="the bear " * 100, params=params)
    shown = ""
    *sent, end = decode(request)
    for event in sent:
        if isinstance(event, TextDelta):
            shown = applied(shown, (event.keep_chars, event.text))
    assert shown == end.trace.outputs[0].text
    # The first steps read on from the prompt, the end reads the whole.
    assert len([count for count in counts if count > MOST]) <= 2 * 40


def test_figures_of_a_text_that_is_revised_are_those_of_the_text_from_its_beginning():
    params = {"max_new_tokens": 40, "min_new_tokens": 40, "num_beams": 4, "no_repeat_ngram_size": 0}
    trace = finished(
        DecodeRequest("beam_search", long_model(make_tokenizer(300)), input_ids=[5], params=params)
    )
    written, ids = TextSummary(trace), []
    for step in trace.steps:
        own = written.add(step)["own"]
        ids[step.keep :] = step.emit
        grams = [tuple(ids[i : i + 3]) for i in range(len(ids) - 2)]
        assert own["tokens"] == len(ids)
        assert own["rep_3"] == (1 - len(set(grams)) / len(grams) if grams else 0)
    assert any(step.keep < i for i, step in enumerate(trace.steps)), "a text was revised"
