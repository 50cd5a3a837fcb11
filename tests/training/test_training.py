"""The training code on a handful of documents: split, mixture, resume, export."""

from __future__ import annotations

import copy
import dataclasses
import types

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from training import average, export, tokenizer, train, write
from training import corpus as corpora
from training.corpus import Corpus, Mixture, is_held_out
from training.fast_llama import FastLlama, skip_probability

STORIES = [f"Once there was a cat number {i}. It liked to play with {i} balls." for i in range(60)]
FACTS = [f"Question: What is the capital of Land{i}? Answer: Town{i}." for i in range(20)]


@pytest.fixture(scope="module")
def corpus():
    kept = [d for d in STORIES if not is_held_out(d)]
    held = [d for d in STORIES if is_held_out(d)]
    return Corpus(kept, held, STORIES[:3], STORIES[3:9], FACTS)


@pytest.fixture(scope="module")
def tiny(corpus):
    recipe = train.Recipe(
        300, 32, 48, 4, 2, 1, batch=2, early_exit_scale=0.3, layer_dropout=0.2, facts_after=2
    )
    return recipe, tokenizer.train(corpus, 300)


def trainer(corpus, tiny):
    return train.Trainer(tiny[0], Mixture(corpus, tiny[1], 32), compiled=False)


def test_the_split_is_disjoint_and_fixed(corpus):
    assert corpus.held_out
    assert not set(corpus.held_out) & set(corpus.stories)
    assert [i for i, d in enumerate(STORIES) if is_held_out(d)] == [7, 16, 35]


def test_prepared_documents_come_back(corpus, tmp_path):
    corpora.save(corpus, tmp_path)
    assert corpora.load(tmp_path) == corpus
    (tmp_path / corpora.WRITTEN).write_text(f"A cat.\n{corpora.END}\nA dog.\n{corpora.END}\n")
    assert corpora.load(tmp_path, with_written=True).written == ["A cat.", "A dog."]
    assert corpora.load(tmp_path).written == []


def test_facts_are_marked_and_reach_the_upper_layers_only(corpus, tiny):
    batches = Mixture(corpus, tiny[1], 32).batches(8)
    pairs = [
        pair
        for ids, marks in (next(batches) for _ in range(60))
        for row, flags in zip(ids, marks, strict=True)
        for pair in zip(row, flags, strict=True)
    ]
    assert "Answer: Town" in tiny[1].decode([i for i, is_fact in pairs if is_fact])
    stories = tiny[1].decode([i for i, is_fact in pairs if not is_fact])
    assert "cat number" in stories
    assert "Answer" not in stories
    model = train.build(tiny[0])
    everywhere = torch.ones(1, 8, dtype=torch.bool)
    fast = FastLlama(model, compiled=False)
    fast(torch.arange(8)[None], set(), 0.0, torch.float32, (2, everywhere))[4].sum().backward()
    touched = [bool(layer.mlp.up_proj.weight.grad.any()) for layer in model.model.layers]
    assert touched == [False, False, True, True]


def test_a_resumed_run_is_the_same_run(corpus, tiny):
    straight = trainer(corpus, tiny)
    losses = [straight.train_step(0.5) for _ in range(5)]
    ended = copy.deepcopy(straight.state())
    first = trainer(corpus, tiny)
    for _ in range(3):
        first.train_step(0.5)
    state = dict(first.state().items())
    saved = torch.utils._pytree.tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, state)
    second = trainer(corpus, tiny)
    second.resume(saved)
    assert [second.train_step(0.5) for _ in range(2)] == losses[3:]
    assert (second.step, second.state()["random"]) == (5, ended["random"])
    own = second.model.state_dict()
    assert all(torch.equal(own[name], value) for name, value in ended["model"].items())


def test_the_fast_forward_pass_is_transformers_own(tiny):
    model = train.build(tiny[0]).eval()
    ids = torch.randint(0, 300, (2, 17))
    fast = FastLlama(model, compiled=False)(ids, {2}, 0.0, torch.float32)
    with torch.no_grad():
        whole = model(ids, output_hidden_states=True)
    assert torch.allclose(model.lm_head(fast[4]), whole.logits, atol=1e-5)
    assert torch.allclose(fast[2], model.model.norm(whole.hidden_states[2]), atol=1e-5)


@pytest.mark.nightly
def test_polishing_brings_the_exit_nearer_to_the_last_layer(corpus, tiny):
    ids = torch.tensor(next(Mixture(corpus, tiny[1], 32, seed=9).batches(8))[0])

    def trained(steps, weights=None, *, polish=False, **changes):
        recipe = dataclasses.replace(tiny[0], layer_dropout=0.0, **changes)
        mixture = Mixture(corpus, tiny[1], 32)
        made = train.Trainer(recipe, mixture, polish=polish, compiled=False)
        if weights is not None:
            made.model.load_state_dict(weights)
        for _ in range(steps):
            made.train_step(0.5)
        with torch.no_grad():
            hidden = made.fast(ids, {1}, 0.0, torch.float32)
            own, last = (made.model.lm_head(hidden[k]).log_softmax(-1) for k in (1, 4))
        return made, (last.exp() * (last - own)).sum(-1).mean().item()

    plain, far = trained(100, early_exit_scale=0.0)
    polisher, near = trained(60, plain.model.state_dict(), polish=True)
    _, still_far = trained(60, plain.model.state_dict(), early_exit_scale=0.0)
    assert polisher._exits() == {1}
    # By how much depends on the order in which a processor adds: a fifth and more was measured on two.
    assert 0 < near < far / 1.1
    assert near < still_far / 1.2


def test_polishing_asks_for_what_the_last_layer_says_whatever_comes_next(corpus, tiny):
    polisher = train.Trainer(tiny[0], Mixture(corpus, tiny[1], 32), polish=True, compiled=False)
    states, facts = torch.randn(2, 8, 32), torch.zeros(2, 9, dtype=torch.bool)
    assert states.shape[-1] == polisher.model.config.hidden_size
    targets = torch.randint(0, 300, (2, 8))
    with torch.no_grad():
        own = polisher.model.lm_head(states)
        assert polisher._early(states, targets, facts, own).item() == pytest.approx(0, abs=1e-6)
        assert polisher._early(states, targets, facts, own.flip(-1)).item() > 0.01
        # Facts are left to the upper layers.
        assert polisher._early(states, targets, ~facts, own.flip(-1)).item() == 0


def test_layer_dropout_grows_from_zero():
    values = [skip_probability(i, 16, 0.1) for i in range(16)]
    assert values[0] == 0
    assert values == sorted(values)
    assert values[-1] == pytest.approx(0.1)


def test_export_loads_with_plain_transformers(corpus, tiny, tmp_path):
    model = train.build(tiny[0])
    export.export(model, tokenizer.wrap(tiny[1], 64), tmp_path, eos_token_id=0)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    text = AutoTokenizer.from_pretrained(tmp_path)
    assert text.decode(text("a cat. It")["input_ids"]) == "a cat. It"
    assert loaded.generation_config.eos_token_id == text.eos_token_id == 0
    assert next(loaded.parameters()).dtype == torch.float16


def test_recipes_have_the_promised_sizes(tiny):
    for name, low, high in (("target", 12e6, 16e6), ("draft", 1e6, 2e6), ("foreign", 1e6, 2e6)):
        recipe = train.RECIPES[name]
        with torch.device("meta"):
            count = sum(
                p.numel()
                for p in train.LlamaForCausalLM(
                    train.build(dataclasses.replace(recipe)).config
                ).parameters()
            )
        assert low <= count <= high, (name, count)


def test_the_target_writes_from_openings_of_one_length(tiny):
    openings = write.batches([list(range(1, 60))] * 200)
    assert {o.shape[1] for o in openings} == set(write.OPENINGS)
    model = train.build(tiny[0]).eval()
    first = next(o for o in openings if o.shape[1] == 8)[:3]
    rows = list(write.continued(model, first, greedy=True))
    assert len(rows) == 3
    for row in rows:
        assert row[:8] == list(range(1, 9))
        assert 0 not in row


def test_what_the_target_writes_ends_at_its_end_mark():
    asked = []

    def generate(openings, **options):
        asked.append(options)
        return torch.tensor([[7, 8, 9, 0, 0], [7, 8, 9, 6, 5]])

    model, openings = types.SimpleNamespace(generate=generate), torch.tensor([[7, 8], [7, 8]])
    for greedy in (True, False):
        rows = write.continued(model, openings, greedy=greedy)
        assert rows == [[7, 8, 9], [7, 8, 9, 6, 5]]
    assert [options["do_sample"] for options in asked] == [False, True]
    assert asked[1]["temperature"] == write.TEMPERATURE


def test_the_mean_of_two_checkpoints(tmp_path):
    for i, value in enumerate((1.0, 4.0)):
        torch.save({"model": {"w": torch.full((2,), value)}}, tmp_path / f"{i}.pt")
    found = average.mean([tmp_path / "0.pt", tmp_path / "1.pt"])
    assert found["w"].tolist() == [2.5, 2.5]
    torch.save({"model": {"v": torch.zeros(2)}}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="different models"):
        average.mean([tmp_path / "0.pt", tmp_path / "other.pt"])
