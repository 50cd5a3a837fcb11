"""The shipped heads guess what Storyteller says, and the shipped masked diffusion model fills hidden places."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine import load
from engine.models.eight_bits import unpack
from engine.models.hashes import check_embedded_files
from training import masked_diffusion, train_mtp

MODELS = Path(__file__).parents[2] / "assets" / "models"
OPENINGS = [
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her friends.",
    "One day, a boy and his dog went to the big park near their house. They saw a red ball in the tree and wanted it.",
]


def weights_of(name):
    check_embedded_files(name)
    return unpack(load_file(MODELS / name / "model.safetensors"))


@pytest.fixture(scope="module")
def diffusion():
    made = masked_diffusion.build()
    made.load_state_dict(weights_of("storyteller-diffusion"), strict=False)
    return made.eval().requires_grad_(False)


def test_with_the_heads_a_pass_gives_more_than_two_tokens():
    loaded = load("storyteller")
    heads = train_mtp.make_heads(loaded.model)
    texts = train_mtp.write_greedily(loaded.model, loaded.tokenizer.backend_tokenizer, OPENINGS)
    before = train_mtp.measure(loaded.model, heads, texts)["tokens_per_pass"]
    heads.load_state_dict(weights_of("storyteller-mtp"))
    assert len(texts) == len(OPENINGS)
    assert train_mtp.measure(loaded.model, heads, texts)["tokens_per_pass"] > 2.3 > before


def test_the_diffusion_model_reads_what_follows_a_hidden_word(diffusion):
    """A model that reads one way gives the word the same probability whatever follows."""
    tokenizer = load("storyteller").tokenizer
    before = tokenizer("The girl was very")["input_ids"]
    [sad] = tokenizer(" sad", add_special_tokens=False)["input_ids"]
    chances = {}
    for end in (" and cried.", " and smiled."):
        after = tokenizer(end, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*before, masked_diffusion.MASK, *after]])
        logits = masked_diffusion.logits_of(diffusion, ids)[0, len(before)]
        chances[end] = float(logits.softmax(-1)[sad])
    assert chances[" and cried."] > 10 * chances[" and smiled."]


@pytest.mark.nightly
def test_in_more_steps_it_writes_a_text_that_storyteller_finds_likelier(diffusion):
    loaded = load("storyteller")
    found = {}
    for steps in (4, 32):
        values = []
        for opening in OPENINGS:
            prompt = torch.tensor([loaded.tokenizer(opening)["input_ids"]])
            written = masked_diffusion.write(diffusion, prompt, 32, steps)
            assert not bool((written == masked_diffusion.MASK).any())
            with torch.no_grad():
                logprobs = loaded.model(written).logits[:, :-1].log_softmax(-1)
            own = logprobs.gather(-1, written[:, 1:, None])[:, prompt.shape[1] - 1 :]
            values.append(float((-own.mean()).exp()))
        found[steps] = sum(values) / len(values)
    assert found[32] < found[4] / 2
