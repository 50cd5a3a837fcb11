"""Every strategy keeps to five grammars with three kinds of tokenizers; none of the judges is llguidance."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from engine import DecodeRequest, load
from engine.models.loading import LoadedModel
from engine.strategies import STRATEGIES
from tests.helpers.grammars import BALL, CHOICE, COUNT, PAIRS, TOY, matches
from tests.helpers.heads import with_heads
from tests.helpers.models import tiny_llama
from tests.helpers.runs import finished_together
from tests.helpers.strategies import NEXT_TOKEN
from tests.helpers.tokenizers import TEXT, make_sentencepiece, make_unigram

GRAMMARS = {"regex": BALL, "choice": CHOICE, "lark": COUNT, "nested": PAIRS, "json": {"json": TOY}}
KINDS = ("byte_level", "sentencepiece", "unigram")
"""Tokenizers: each strategy and each grammar has every one."""
PROMPTS = ("The little bear saw", "So they ran and ran to the", "A small cat")
DRAWS = {"sampling": 40, "beam_sampling": 4, "watermark": 5}
"""Strategies that always draw, with their number of draws."""
MORE_DRAWS = 3
"""Draws of a strategy that draws if it is asked to."""
WRITABLE = TEXT + ' { } " : [ ] ( ) , . ! 0 1 2 3 4 5 6 7 8 9 '


@cache
def writing_tokenizer(kind: str) -> Any:
    """Return a tokenizer that can write every grammar; training it twice may give two of them."""
    make = {"sentencepiece": make_sentencepiece, "unigram": make_unigram}[kind]
    return make(480, WRITABLE)


@cache
def writer(kind: str, seed: int) -> LoadedModel:
    """Return a model whose tokenizer can write every grammar; its weights are random but for byte_level."""
    if kind == "byte_level":
        return load("storyteller" if seed == 1 else "storyteller-draft")
    tokenizer = writing_tokenizer(kind)
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    model = with_heads(tiny_llama(2, vocab_size=len(tokenizer), seed=seed, **ids))
    return LoadedModel(model, tokenizer, f"writer-{kind}-{seed}")


def list_requests(strategy: str, kind: str, spec: dict) -> list[DecodeRequest]:
    """Return the requests of one strategy, tokenizer and grammar."""
    needs = STRATEGIES[strategy].assistant
    other = {"any_tokenizer": "foreign-draft", "same_tokenizer": writer(kind, 2)}.get(needs)
    params = {"structured_outputs": spec, "max_new_tokens": 40}
    if strategy == "early_exit":
        params["assistant_early_exit"] = 1

    def ask(prompt: str, seed: int, **more: object) -> DecodeRequest:
        values = {**params, **more}
        return DecodeRequest(
            strategy, writer(kind, 1), prompt=prompt, params=values, seed=seed, assistant=other
        )

    if strategy in DRAWS:
        return [ask(PROMPTS[0], seed) for seed in range(DRAWS[strategy])]
    if strategy == "custom":
        # Each run begins a process, which takes seconds; its filters are those of the other strategies.
        return [ask(PROMPTS[0], 0), ask(PROMPTS[1], 1, do_sample=True)]
    found = [ask(prompt, 0) for prompt in PROMPTS]
    if hasattr(STRATEGIES[strategy].config, "do_sample"):
        found += [ask(PROMPTS[0], seed, do_sample=True) for seed in range(MORE_DRAWS)]
    return found


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "kind", "strategy"),
    [
        (name, KINDS[(number + place) % len(KINDS)], strategy)
        for number, name in enumerate(GRAMMARS)
        for place, strategy in enumerate(NEXT_TOKEN)
    ],
)
def test_finished_texts_match_and_none_is_cut_silently(name, kind, strategy):
    spec, judged = GRAMMARS[name], 0
    for trace in finished_together(list_requests(strategy, kind, spec)):
        for number, output in enumerate(trace.outputs, 1):
            if output.finish_reason == "eos":
                assert matches(spec, output.text), output.text
                judged += 1
            else:
                cut = f"Text {number} is not complete under structured_outputs"
                assert any(note.startswith(cut) for note in trace.notes), output.text
    assert judged or name == "nested"
