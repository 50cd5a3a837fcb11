"""The restoring model's training on a handful of sentences: damage, batches, resume, export."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training import export, tokenizer, train_seq2seq
from training.damage import LONGEST, SHORTEST, damaged, sentences
from training.evaluate import edits

STORY = "One day, Tim saw a big dog. “Hello,” said Tim! The dog wanted to play with the red ball."
SHAPE = {"d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 24, "num_layers": 2}


@pytest.fixture(scope="module")
def material():
    texts = sentences([STORY.replace("Tim", name) for name in ("Tim", "Anna", "Lily", "Ben")])
    return texts, tokenizer.train_seq2seq(texts, 300)


def trainer(material):
    return train_seq2seq.Seq2SeqTrainer(*material, batch=2, num_decoder_layers=1, **SHAPE)


def test_sentences_are_cut_and_straightened():
    assert sentences([STORY])[:2] == ["One day, Tim saw a big dog.", '"Hello," said Tim!']
    assert all(SHORTEST <= len(s) <= LONGEST for s in sentences([STORY]))


def test_damage_is_repeatable_and_leaves_the_words_in_order():
    text = sentences([STORY])[2]
    made = [damaged(text, random.Random(seed)) for seed in range(30)]
    assert made == [damaged(text, random.Random(seed)) for seed in range(30)]
    assert len(set(made)) > 10
    assert all(len(m.split()) == len(text.split()) for m in made)
    assert all(0 < edits(m, text) < len(text) / 2 for m in made if m != text)


def test_damage_takes_most_capitals_and_most_punctuation():
    text = "One day, Tim saw a big dog."
    made = [damaged(text, random.Random(seed)) for seed in range(400)]
    small = sum(m == m.lower() for m in made) / len(made)
    kept = sum(m.count(",") + m.count(".") for m in made) / len(made) / 2
    assert 0.8 < small < 0.9
    assert 0.15 < kept < 0.25


def test_edits_by_hand():
    assert edits("kitten", "sitting") == 3
    assert edits("", "abc") == edits("abc", "") == 3
    assert edits("same", "same") == 0


def test_batches_pad_and_end_every_text(material):
    sources, targets = next(train_seq2seq.batches(*material, 3))
    assert len(sources) == len(targets) == 3
    assert (sources != train_seq2seq.PAD).any(1).all()
    for row in targets.tolist():
        kept = [i for i in row if i != train_seq2seq.IGNORED]
        assert kept[-1] == train_seq2seq.EOS
        assert row[: len(kept)] == kept


def test_a_resumed_run_is_the_same_run(material):
    straight = trainer(material)
    losses = [straight.train_step(0.5) for _ in range(5)]
    first = trainer(material)
    for _ in range(3):
        first.train_step(0.5)
    copied = torch.utils._pytree.tree_map(
        lambda x: x.clone() if torch.is_tensor(x) else x, first.state()
    )
    second = trainer(material)
    second.resume(copied)
    assert [second.train_step(0.5) for _ in range(2)] == losses[3:]


def test_export_loads_with_plain_transformers(material, tmp_path):
    model = train_seq2seq.build(vocabulary=300, num_decoder_layers=1, **SHAPE)
    export.export(model, tokenizer.wrap_seq2seq(material[1]), tmp_path, eos_token_id=1)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    loaded_tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = loaded_tokenizer("the dog")["input_ids"]
    assert ids[-1] == loaded_tokenizer.eos_token_id == loaded.config.eos_token_id
    assert loaded_tokenizer.decode(ids, skip_special_tokens=True).strip() == "the dog"


def test_the_recipe_has_the_promised_size():
    with torch.device("meta"):
        model = train_seq2seq.T5ForConditionalGeneration(train_seq2seq.build().config)
    assert 3e6 <= sum(p.numel() for p in model.parameters()) <= 6e6
