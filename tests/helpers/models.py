"""Tiny models made from a config: the same weights under every transformers version."""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from engine.models.loading import LoadedModel
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.heads import with_heads

VOCAB = 97
_GOLDEN = Path(__file__).parents[1] / "golden" / "transformers_4_55_outputs.json.gz"
IDS = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def tiny_llama(
    layers: int, *, kind: str = "Llama", seed: int | None = None, **settings: Any
) -> Any:
    """Return a Llama of width 32, or a model of a kind with the same settings.

    Args:
        layers: how many hidden layers.
        kind: the architecture, as transformers begins its class names.
        seed: draws every weight from numpy's frozen stream; None leaves transformers' own start.
        settings: of the config, in place of those of the golden models.
    """
    values = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
        **IDS,
        **settings,
    }
    config = getattr(transformers, f"{kind}Config")(num_hidden_layers=layers, **values)
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    if seed is not None:
        set_weights(model, 0.4, seed)
    return model.eval()


def _gpt2() -> Any:
    config = transformers.GPT2Config(n_positions=256, n_embd=32, n_layer=4, n_head=4, **IDS)
    return transformers.GPT2LMHeadModel(config)


def _t5() -> Any:
    config = transformers.T5Config(
        vocab_size=VOCAB,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=3,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
        eos_token_id=1,
        pad_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


_MODELS = {
    "llama": (lambda: tiny_llama(6), 0.4, 0),
    "llama_draft": (lambda: tiny_llama(2), 0.4, 2),
    "llama2l_tied": (lambda: tiny_llama(2, tie_word_embeddings=True), 0.4, 8),
    "gpt2": (_gpt2, 0.25, 3),
    "t5": (_t5, 0.5, 6),
    "qwen2": (lambda: tiny_llama(3, kind="Qwen2"), 0.4, 11),
}


def set_weights(model: Any, std: float, seed: int) -> None:
    """Give every parameter its values from numpy's frozen RandomState stream."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = weight_of(name, p, seed)
            low = name.lower()
            is_norm = p.ndim == 1 and ("norm" in low or "ln_" in low) and low.endswith("weight")
            p.copy_(1 + 0.3 * x if is_norm else std * x)


def weight_of(name: str, p: torch.Tensor, seed: int) -> torch.Tensor:
    """Return a parameter's values, standard normal, from numpy's frozen RandomState stream."""
    state = np.random.RandomState((zlib.crc32(name.encode()) ^ seed) & 0x7FFFFFFF)
    return torch.from_numpy(state.standard_normal(tuple(p.shape)).astype(np.float32))


def fresh_model(name: str) -> Any:
    """Return a new transformers model of the golden family (or qwen2)."""
    make, std, seed = _MODELS[name]
    torch.manual_seed(0)
    model = make()
    set_weights(model, std, seed)
    return model.eval()


@cache
def golden_model(name: str) -> LoadedModel:
    """Return a shared tiny model without a tokenizer; llama has heads."""
    model = fresh_model(name)
    return LoadedModel(with_heads(model) if name == "llama" else model, None, name)


@cache
def golden_cases(*prefixes: str) -> tuple[dict[str, Any], ...]:
    """Return the recorded cases whose id starts with one of the prefixes and a hyphen."""
    cases = json.loads(gzip.decompress(_GOLDEN.read_bytes()))["cases"]
    found = tuple(c for c in cases if c["id"].split("-")[0] in prefixes)
    assert {c["id"].split("-")[0] for c in found} == set(prefixes)
    return found


def native(loaded: LoadedModel, ids: list[int], seed: int = 0, **kwargs: Any) -> list[list[int]]:
    """Return the new tokens of transformers' own generate(), padding after the end cut."""
    torch.manual_seed(seed)
    prompt = torch.tensor([ids], device=loaded.device)
    out = type(loaded.model).generate(
        loaded.model, prompt, attention_mask=torch.ones_like(prompt), **kwargs
    )
    sequences = getattr(out, "sequences", out)
    start = 1 if loaded.is_encoder_decoder else len(ids)
    return [new_tokens(row[start:], loaded.eos_token_ids) for row in sequences.tolist()]


def new_tokens(row: list[int], eos: tuple[int, ...]) -> list[int]:
    """Cut a row after its first end-of-sequence id."""
    return next((row[: i + 1] for i, token_id in enumerate(row) if token_id in eos), row)


def with_settings(place: Path, fields: dict[str, Any]) -> str:
    """Return a folder with a small model that tells stories and a generation_config.json of these fields."""
    shutil.copytree(MODEL_DIR / "storyteller-draft", place)
    (place / "generation_config.json").write_text(json.dumps(fields))
    return str(place)
