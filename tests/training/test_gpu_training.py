"""Heads and the masked diffusion model on a handful of documents: rows, losses, resume, 8 bits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from engine.models.eight_bits import pack, unpack
from training import export, masked_diffusion, tokenizer, train_diffusion, train_mtp
from training.corpus import Corpus
from training.documents import Documents

STORIES = [f"Once there was a cat number {i}. It liked to play with {i} balls." for i in range(60)]


@pytest.fixture(scope="module")
def spoken():
    return tokenizer.train(Corpus(STORIES, [], [], [], []), 300)


@pytest.fixture(scope="module")
def documents(spoken):
    return Documents([" ".join(STORIES[k : k + 3]) for k in range(0, 60, 3)], spoken, "cpu")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    config = LlamaConfig(vocab_size=300, max_position_embeddings=256, **sizes, **heads)
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def test_a_row_is_part_of_one_document_from_its_start_or_a_sentence(documents, spoken):
    torch.manual_seed(0)
    whole = [spoken.decode(part) for part in _split(documents.flat.tolist())]
    rows = documents.windows(32, 48).tolist()
    for number, row in enumerate(rows):
        text = spoken.decode(row[: row.index(0)] if 0 in row else row)
        assert any(text in document for document in whole)
        assert text.strip().startswith(("Once", "It"))
        assert number >= 16 or text.startswith("Once"), "the first half begins a document"
    assert documents.packed(3, 20).shape == (3, 20)


def _split(ids):
    parts, part = [], []
    for i in ids:
        if i:
            part.append(i)
        else:
            parts, part = [*parts, part], []
    return parts


def test_heads_are_the_layers_of_transformers(model):
    heads = train_mtp.make_heads(model, 2)
    ids = torch.randint(1, 300, (1, 20))
    with torch.no_grad():
        hidden = model.model(ids).last_hidden_state
        ours = train_mtp.run_heads(heads, model, hidden, ids, torch.float32)
        positions = torch.arange(1, 20)[None]
        theirs = heads[0](
            model.model.embed_tokens(ids[:, 1:]),
            hidden[:, :-1],
            model.model.rotary_emb(hidden, positions),
            attention_mask=None,
            position_ids=positions,
            past_key_values=None,
        )
    assert torch.allclose(ours[0][:, :-1], theirs, atol=1e-5)
    assert len(ours) == 2


def test_training_brings_heads_nearer_and_continues_from_its_checkpoint(model, documents, tmp_path):
    torch.manual_seed(1)
    trainer = train_mtp.HeadTrainer(model, tmp_path, 1)
    ids = documents.packed(4, 40)
    losses = []
    for _ in range(30):
        trainer.step = 99  # past the slow start, and its losses are returned
        losses.append(sum(trainer.train_step(ids)))
    assert losses[-1] < losses[0] - 0.1
    trainer.save()
    again = train_mtp.HeadTrainer(model, tmp_path, 1)
    assert again.step == trainer.step
    for ours, theirs in zip(again.heads.parameters(), trainer.heads.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_heads_that_know_the_text_yield_all_their_tokens(monkeypatch):
    text = torch.randint(1, 300, (40,)).tolist()

    def knows(heads, model, hidden, ids, dtype):
        return [torch.nn.functional.one_hot(ids.roll(-k - 1), 300).float() for k in (1, 2, 3)]

    monkeypatch.setattr(train_mtp, "run_heads", knows)
    reads = lambda row: SimpleNamespace(last_hidden_state=row)  # noqa: E731
    model = SimpleNamespace(device="cpu", model=reads, lm_head=torch.nn.Identity())
    measured = train_mtp.measure(model, [None] * 3, [text])
    assert measured["tokens_per_pass"] == 4
    assert measured["right"] == [1, 1, 1]


def test_eight_bits_are_off_by_half_a_step_at_most():
    state = {"matrix": torch.randn(5, 40), "norm": torch.randn(40)}
    packed = pack(state)
    assert packed["matrix"].dtype == torch.int8
    back = unpack(packed)
    assert set(back) == set(state)
    step = state["matrix"].abs().amax(1, keepdim=True) / 127
    assert ((back["matrix"] - state["matrix"]).abs() <= 0.51 * step + 1e-4).all()
    assert torch.allclose(back["norm"], state["norm"], atol=2e-3)


def test_hidden_tokens_weigh_as_much_as_all_tokens():
    ids = torch.ones(4000, 20, dtype=torch.long)
    noisy, weights = masked_diffusion.hide(ids, torch.Generator().manual_seed(0))
    assert ((noisy == masked_diffusion.MASK) == (weights > 0)).all()
    assert float(weights.mean()) == pytest.approx(1, abs=0.05)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("steps", [1, 4, 12])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_place_is_written_once_and_the_prompt_stays(steps, temperature):
    torch.manual_seed(0)
    model = masked_diffusion.build().eval()
    prompts = torch.tensor([[5, 6, 7], [8, 9, 10]])
    ids = masked_diffusion.write(model, prompts, 12, steps, temperature=temperature)
    assert ids.shape == (2, 15)
    assert torch.equal(ids[:, :3], prompts)
    assert (ids < masked_diffusion.MASK).all()


@pytest.mark.nightly
def test_training_lowers_the_bound_and_continues_from_its_checkpoint(documents, tmp_path):
    torch.manual_seed(0)
    trainer = train_diffusion.DiffusionTrainer(tmp_path, 1, "cpu")
    before = train_diffusion.held_out_bound(trainer.model, documents, 32)
    assert before == train_diffusion.held_out_bound(trainer.model, documents, 32)
    for _ in range(6):
        trainer.step = 99
        trainer.train_step(documents.windows(8, 48))
    assert train_diffusion.held_out_bound(trainer.model, documents, 32) < before - 0.5
    trainer.save()
    again = train_diffusion.DiffusionTrainer(tmp_path, 1, "cpu")
    assert again.step == 100
    assert torch.equal(again.model.lm_head.weight, trainer.model.lm_head.weight)


@pytest.mark.parametrize("name", ["mtp", "diffusion"])
def test_what_is_exported_at_8_bits_comes_back(name, model, tmp_path, monkeypatch):
    trainers = {
        "mtp": lambda: train_mtp.HeadTrainer(model, tmp_path, 1),
        "diffusion": lambda: train_diffusion.DiffusionTrainer(tmp_path, 1, "cpu"),
    }
    trainer = trainers[name]()
    trainer.save()
    arguments = [name, "--work", str(tmp_path), "--to", str(tmp_path / "to")]
    monkeypatch.setattr("sys.argv", ["export", *arguments])
    export.main()
    back = unpack(load_file(tmp_path / "to" / "model.safetensors"))
    trained = trainer.heads if name == "mtp" else trainer.model
    missing = trained.load_state_dict(back, strict=False).missing_keys
    assert missing == ([] if name == "mtp" else ["lm_head.weight"])
