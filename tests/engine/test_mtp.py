"""Drafting with heads: transformers' own rounds, the model's own text, and what is refused."""

from __future__ import annotations

import json
import shutil
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from engine import DecodeRequest, load
from engine.models.eight_bits import unpack
from engine.models.loading import LoadedModel
from engine.models.mtp_heads import load_heads
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.drafting import finish, native_rounds, rounds
from tests.helpers.models import golden_model, tiny_llama
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import PROMPT
from tests.helpers.zoo import zoo_model

PROMPTS = (
    "Once upon a time there was a small",
    "The committee of seven astronomers voted to",
    "Mummy and Timmy were in",
)


class LlamaWithHeads(LlamaForCausalLM):
    """Llama whose checkpoint has heads, which transformers then loads."""

    _keys_to_ignore_on_load_unexpected: ClassVar = [r"model\.layers\.(16|17|18)\..*"]


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """Return Storyteller from a checkpoint with its heads, as ``use_mtp`` needs it."""
    folder, source = tmp_path_factory.mktemp("native"), MODEL_DIR / "storyteller"
    weights = {}
    for file in source.iterdir():
        if file.suffix == ".safetensors":
            weights |= load_file(file)
        elif not file.name.endswith("index.json"):
            shutil.copy(file, folder)
    heads = unpack(load_file(MODEL_DIR / "storyteller-mtp" / "model.safetensors"))
    for name, value in heads.items():
        number, rest = name.split(".", 1)
        place = f"model.layers.{16 + int(number)}.{rest.replace('mtp_block.', '')}"
        weights[place] = value
    weights = {name: value.float().contiguous() for name, value in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return LlamaWithHeads.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.by_day("Mummy and Timmy were in")
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_rounds_and_tokens_are_those_of_transformers(prompt, native):
    loaded = load("storyteller", "cpu", "float32")
    ids = loaded.tokenizer(prompt)["input_ids"]
    params = {"max_new_tokens": 40}
    trace = finish("mtp", params, model=loaded, input_ids=ids)
    tokens, theirs = native_rounds(
        0, {}, prompt=ids, target=native, do_sample=False, pad_token_id=0, use_mtp=True, **params
    )
    assert list(trace.outputs[0].token_ids) == tokens[: len(trace.outputs[0].token_ids)]
    # transformers drafts past the budget.
    assert [made for _, made in rounds(trace)][:-1] == [made for _, made in theirs][
        : len(trace.steps) - 1
    ]
    plain = finish("greedy", params, model=loaded, input_ids=ids)
    assert trace.outputs[0].token_ids == plain.outputs[0].token_ids
    assert {step.detail.drafter for step in trace.steps} == {"mtp"}
    assert trace.steps[0].detail.draft_length == 0
    assert trace.assistant is None


def test_sampling_keeps_guesses_and_compares_the_distribution():
    params = {"max_new_tokens": 12, "do_sample": True, "top_k": 0, "distribution_runs": 20}
    loaded = load("storyteller", "cpu", "float32")
    ids = loaded.tokenizer(PROMPTS[0])["input_ids"]
    trace = finish("mtp", params, model=loaded, input_ids=ids)
    assert trace.steps[-1].detail.report.distributions
    assert any(len(step.emit) > 1 for step in trace.steps)


def test_heads_of_a_checkpoint_are_read_as_transformers_does(native):
    ours = load_heads(load("storyteller", "cpu", "float32").model)
    theirs = load_heads(native)
    for one, other in zip(ours.layers.parameters(), theirs.layers.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_model_without_heads_is_refused_in_one_sentence():
    request = DecodeRequest("mtp", golden_model("gpt2"), input_ids=[5, 9], params={})
    assert clean(str(failed(request))) == (
        "gpt2 cannot be used with Multi-token prediction: it has no heads that guess several tokens."
    )


def test_a_model_whose_files_have_no_heads_is_refused_in_one_sentence():
    model = tiny_llama(4, seed=1, num_mtp_layers=2)
    request = DecodeRequest("mtp", LoadedModel(model, None, "tiny"), input_ids=[5, 9], params={})
    assert clean(str(failed(request))) == ("The files of tiny have no weights for its heads.")


def test_heads_of_another_architecture_are_right_and_wrong():
    model = zoo_model("Mixtral")
    request = DecodeRequest("mtp", model, input_ids=PROMPT, params={"max_new_tokens": 40})
    statuses = {token.status for step in finished(request).steps for token in step.detail.tokens}
    assert {"accepted", "rejected"} <= statuses


def test_loading_the_model_alone_reads_no_heads():
    names = json.loads((MODEL_DIR / "storyteller/model.safetensors.index.json").read_text())
    assert not [name for name in names["weight_map"] if ".16." in name]
    assert len(load("storyteller", "cpu", "float32").model.model.layers) == 16
