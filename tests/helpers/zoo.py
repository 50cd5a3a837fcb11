"""Tiny models of many architectures, made from configurations and seeds; nothing is fetched."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest
import torch
import transformers

from engine.models.loading import LoadedModel
from engine.models.model_views import special_ids_config
from tests.helpers.heads import HEADED, with_heads
from tests.helpers.models import IDS, weight_of

LINEAR = ["linear_attention", "full_attention"] * 2
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "head_dim": 4,
    "num_key_value_heads": 4,
}
COMMON: dict[str, Any] = {
    **IDS,
    "decoder_start_token_id": 0,
    # The same size under the names that architectures have for it.
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim", "lru_width"), 32),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "mamba_d_ssm"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 4),
    **dict.fromkeys(("num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 256),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    **dict.fromkeys(("sliding_window", "attention_window_size", "window_size"), 6),
    **dict.fromkeys(("n_group", "topk_group", "mamba_n_groups"), 1),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "rotary_dim": 4,
    "expand": 2,
    "state_size": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "attention_hidden_size": 32,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_chunk_size": 16,
}


@dataclass(frozen=True)
class Kind:
    """An architecture: how it is made, and what it cannot serve.

    Attributes:
        config: begins the name of its configuration's class.
        settings: in place of ``COMMON``, of which it takes what its configuration knows.
        model: the name of its class.
        refuses: strategies that it cannot serve as the model.
        by_day: the path through the code for which `make test` tries it; empty for `make nightly` alone.
        recomputes: whether transformers' passes without its cache give the same tokens as with it.
    """

    config: str
    settings: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    refuses: frozenset[str] = frozenset()
    by_day: str = ""
    recomputes: bool = True


FILLS = frozenset({"masked_diffusion"})
"""What needs a second model that fills hidden places; only Storyteller has one."""
HEADS = frozenset({"mtp"})
"""What needs heads, which not every tiny model has."""
DRAFTING = frozenset({"speculative", "prompt_lookup", "early_exit", "universal_assisted"})
DECODER_ONLY = frozenset({"speculative", "early_exit", "universal_assisted", "dola"})
EXIT = frozenset({"early_exit"})


def _kind(config: str, **more: Any) -> Kind:
    facts = {n: more.pop(n) for n in ("model", "refuses", "by_day", "recomputes") if n in more}
    facts.setdefault("model", config.removesuffix("Text") + "ForCausalLM")
    if config not in HEADED:
        facts["refuses"] = facts.get("refuses", frozenset()) | HEADS
    facts["refuses"] = facts.get("refuses", frozenset()) | FILLS
    return Kind(config, more, **facts)


def _translator(config: str, **more: Any) -> Kind:
    more = {"model": f"{config}ForConditionalGeneration", "refuses": DECODER_ONLY, **more}
    return _kind(config, **more)


KINDS: dict[str, Kind] = {
    kind.config: kind
    for kind in (
        # Attention, in many shapes.
        _kind("Llama", by_day="the plainest decoder: its passes are shared and graphed"),
        _kind("Apertus"),
        _kind("Arcee"),
        _kind("Bloom", by_day="ALiBi instead of positions"),
        _kind("BioGpt"),
        _kind("CodeGen"),
        _kind("Cohere"),
        _kind("DiffLlama"),
        _kind("Falcon", alibi=True, multi_query=True, new_decoder_architecture=False),
        _kind("Gemma"),
        _kind("Glm4"),
        _kind("GPT2", model="GPT2LMHeadModel"),
        _kind("GPTBigCode", multi_query=True, by_day="multi-query attention"),
        _kind("GPTJ"),
        _kind("GPTNeo", attention_types=[[["global", "local"], 2]]),
        _kind("GPTNeoX"),
        _kind("Granite"),
        _kind("Mpt", refuses=EXIT),
        _kind("Nemotron"),
        _kind("Olmo2"),
        _kind("OPT", refuses=EXIT),
        _kind("Persimmon"),
        _kind("Phi"),
        _kind("Phi3"),
        _kind("Qwen2"),
        _kind("Qwen3"),
        _kind("SmolLM3"),
        _kind("StableLm"),
        _kind("XGLM"),
        # Windows, chunks and soft caps.
        _kind("Cohere2"),
        _kind("Exaone4"),
        _kind("Gemma2", by_day="sliding windows in every second layer, soft caps"),
        _kind("Gemma3Text"),
        _kind(
            "Llama4Text",
            attention_chunk_size=8,
            intermediate_size_mlp=64,
            by_day="attention in chunks",
            refuses=EXIT,
        ),
        _kind("Mistral"),
        _kind("ModernBertDecoder"),
        _kind("Olmo3"),
        _kind("Starcoder2"),
        # Experts.
        _kind("DeepseekV3", **LATENT),
        _kind("DeepseekV32", **LATENT, index_head_dim=8, index_n_heads=2, index_topk=256),
        _kind("GptOss", by_day="experts and attention sinks"),
        _kind("GraniteMoe"),
        _kind("JetMoe"),
        _kind("Mixtral"),
        _kind("Olmoe"),
        _kind("Qwen2Moe"),
        _kind("Qwen3Moe"),
        # A running state beside attention, or instead of it.
        _kind("Bamba", attn_layer_indices=[1, 3]),
        _kind("DeepseekV4", refuses=frozenset({"dola"})),
        _kind("FalconH1"),
        _kind("FalconMamba", refuses=DRAFTING),
        _kind("GraniteMoeHybrid", layer_types=LINEAR, shared_intermediate_size=64),
        _kind(
            "Jamba",
            attn_layer_period=2,
            attn_layer_offset=1,
            refuses=DRAFTING,
            by_day="a state that cannot be put back, in some of the layers",
        ),
        _kind(
            "KimiLinear",
            layer_types=LINEAR,
            linear_head_dim=8,
            linear_num_heads=2,
            num_key_value_heads=4,
        ),
        _kind(
            "Lfm2",
            layer_types=["conv", "full_attention"] * 2,
            by_day="convolution states that can be put back",
        ),
        _kind("Lfm2Moe", layer_types=["conv", "full_attention"] * 2, num_dense_layers=1),
        _kind("Mamba", refuses=DRAFTING, by_day="nothing but a state that cannot be put back"),
        _kind(
            "Mamba2",
            num_heads=8,
            n_groups=2,
            chunk_size=16,
            by_day="nothing but a state that can be put back",
        ),
        _kind("MiniMax", layer_types=LINEAR, refuses=DRAFTING, recomputes=False),
        _kind(
            "NemotronH",
            layers_block_type=["mamba", "attention"] * 2,
            mamba_num_heads=8,
            mamba_head_dim=8,
            ssm_state_size=8,
            n_groups=1,
            chunk_size=16,
        ),
        _kind("OlmoHybrid", layer_types=LINEAR),
        _kind("Qwen3_5Text", layer_types=LINEAR),
        _kind("Qwen3_5MoeText", layer_types=LINEAR),
        _kind("Qwen3Next", layer_types=LINEAR, by_day="linear attention"),
        _kind(
            "RecurrentGemma",
            block_types=["recurrent", "attention"] * 2,
            refuses=DRAFTING,
            by_day="a state that lies in the layers, not in a cache",
        ),
        _kind(
            "Rwkv",
            refuses=DRAFTING,
            by_day="a state of its own class, which beams cannot rearrange",
        ),
        _kind(
            "Zamba2",
            layer_types=["linear_attention", "hybrid"] * 2,
            n_mamba_heads=8,
            mamba_headdim=8,
            mamba_ngroups=1,
            chunk_size=16,
            num_mem_blocks=1,
            use_mem_rope=True,
            attention_hidden_size=64,
            attention_head_dim=16,
            num_key_value_heads=4,
            hybrid_layer_ids=[1, 3],
            adapter_rank=4,
        ),
        # Older ones: no cache, or one of their own.
        _kind("CpmAnt", refuses=DRAFTING, recomputes=False),
        _kind("OpenAIGPT", model="OpenAIGPTLMHeadModel", by_day="no cache at all"),
        _kind("XLNet", model="XLNetLMHeadModel", refuses=DRAFTING, recomputes=False),
        # An encoder reads the prompt.
        _translator("Bart", by_day="an encoder reads the prompt"),
        _translator("BigBirdPegasus"),
        _translator("BlenderbotSmall"),
        _translator("M2M100", recomputes=False),
        _translator("Marian", model="MarianMTModel"),
        _translator("MBart"),
        _translator("MT5", by_day="an encoder with relative positions"),
        _translator("Pegasus"),
        _translator("ProphetNet", refuses=DECODER_ONLY | DRAFTING, recomputes=False),
        _translator("SwitchTransformers"),
        _translator("UMT5"),
    )
}


KIND_NAMES = [
    pytest.param(name, marks=() if kind.by_day else pytest.mark.nightly)
    for name, kind in KINDS.items()
]
"""Every architecture as a parameter of tests, those without a reason to run by day marked nightly."""


def small_config(name: str, settings: dict[str, Any]) -> Any:
    """Return a configuration with what it knows of ``COMMON``.

    Args:
        name: begins the name of its class.
        settings: in place of those of ``COMMON``.
    """
    config_class = getattr(transformers, f"{name}Config")
    known = {
        *inspect.signature(config_class.__init__).parameters,
        *getattr(config_class, "__dataclass_fields__", {}),
        *config_class.attribute_map,
    }
    return config_class(**{n: v for n, v in COMMON.items() if n in known} | settings)


def made(name: str, seed: int = 0, noise: float = 0.0) -> Any:
    """Return a new model of an architecture whose matrices come from numpy's frozen stream.

    Args:
        name: of KINDS.
        seed: of the matrices; what is no matrix keeps the architecture's own start.
        noise: added to the matrices, as a share of their spread.
    """
    return make_model(KINDS[name], seed, noise)


def make_model(kind: Kind, seed: int = 0, noise: float = 0.0) -> Any:
    """Return a new model of a kind; see ``made``."""
    torch.manual_seed(0)
    model = getattr(transformers, kind.model)(small_config(kind.config, kind.settings)).eval()
    with torch.no_grad():
        for place, p in model.named_parameters():
            if p.ndim == 2 and "A_log" not in place and "conv" not in place:
                p.copy_(0.35 * (weight_of(place, p, seed) + noise * weight_of(place, p, seed + 1)))
    # Some configurations set defaults for generate(), which a run never inherits.
    model.generation_config = special_ids_config(model)
    return with_heads(model) if kind.config in HEADED else model


@lru_cache(maxsize=4)
def zoo_model(name: str) -> LoadedModel:
    """Return a shared model of an architecture, without a tokenizer."""
    return LoadedModel(made(name), None, name)


@lru_cache(maxsize=4)
def zoo_draft(name: str) -> LoadedModel:
    """Return a draft for ``zoo_model``: the same architecture, not quite the same weights."""
    return LoadedModel(made(name, noise=0.05), None, f"{name}'s draft")
