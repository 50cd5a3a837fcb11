"""A masked diffusion model: a small Llama with attention in both directions that names hidden tokens.

Every position says what is there; the id after the vocabulary hides a token (LLaDA, 2502.09992).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from training.fast_llama import run_layer

VOCAB = 4096
MASK = VOCAB
LEAST_NOISE = 0.02


def build(vocab: int = VOCAB) -> Any:
    """Return a new model of 4.3 million parameters: 9 layers of width 192."""
    config = LlamaConfig(
        vocab_size=vocab + 1,
        hidden_size=192,
        intermediate_size=480,
        num_hidden_layers=9,
        num_attention_heads=6,
        num_key_value_heads=3,
        head_dim=32,
        max_position_embeddings=1024,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def read(model: Any, ids: torch.Tensor, dtype: Any = torch.float32) -> torch.Tensor:
    """Return (rows, length, width) states of ids in which some are hidden; every place sees all others."""
    base = model.model
    hidden = base.embed_tokens(ids)
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    cos, sin = (t.to(dtype)[:, None] for t in base.rotary_emb(hidden, positions))
    for layer in base.layers:
        hidden = run_layer(layer, hidden, cos, sin, is_causal=False)
    return base.norm(hidden)


def logits_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return (rows, length, VOCAB) logits; the mask is never an answer."""
    return model.lm_head(read(model, ids))[..., :VOCAB].float()


def hide(
    ids: torch.Tensor, generator: torch.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rows, length) ids with tokens hidden at noise t, and the weights 1 / t of those hidden.

    The rows' t are spread evenly over (LEAST_NOISE, 1).
    """
    rows, device = ids.shape[0], ids.device
    offset = torch.rand(1, generator=generator, device=device)
    t = (offset + torch.arange(rows, device=device) / rows) % 1
    t = (t * (1 - LEAST_NOISE) + LEAST_NOISE)[:, None]
    hidden = torch.rand(ids.shape, generator=generator, device=device) < t
    return torch.where(hidden, MASK, ids), hidden / t


def bound(model: Any, ids: torch.Tensor, noisy: torch.Tensor, weights: torch.Tensor) -> Any:
    """Return the mean bound on the negative log-likelihood, nats per token (1/t loss)."""
    logits = model.lm_head(read(model, noisy, torch.bfloat16))[..., :VOCAB].float()
    loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none")
    return (loss * weights.flatten()).mean()


@torch.no_grad()
def write(
    model: Any,
    prompts: torch.Tensor,
    new: int,
    steps: int,
    *,
    temperature: float = 0.0,
    order: str = "confidence",
) -> torch.Tensor:
    """Return (rows, prompt + new) tokens; every step reveals the most certain places of each row.

    Args:
        model: of ``build``.
        prompts: (rows, length).
        new: hidden places after the prompt.
        steps: passes.
        temperature: of the draw; 0 takes the best token.
        order: confidence or random.
    """
    hidden = prompts.new_full((len(prompts), new), MASK)
    ids = torch.cat([prompts, hidden], 1)
    for step in range(steps):
        left = int((ids[0] == MASK).sum())
        take = math.ceil(left / (steps - step))
        logits = logits_of(model, ids)
        probs = logits.softmax(-1)
        chosen = probs.argmax(-1)
        if temperature:
            flat = (logits / temperature).softmax(-1).flatten(0, 1)
            chosen = torch.multinomial(flat, 1).view_as(chosen)
        certain = probs.gather(-1, chosen[..., None])[..., 0]
        certain = torch.rand_like(certain) if order == "random" else certain
        certain = certain.masked_fill(ids != MASK, -1)
        places = certain.topk(take, -1).indices
        ids.scatter_(1, places, chosen.gather(1, places))
    return ids
