"""What a run must give: generate() itself, or where transformers has no such mode, the plain arithmetic."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import torch
from transformers import WatermarkingConfig

from engine.loops.beams.diverse import group_beam_loop
from engine.models.loading import LoadedModel
from tests.helpers.loops import run_loop
from tests.helpers.models import native

ALPHA, K = 0.6, 4
BEAMS = {"num_beams": 3, "num_return_sequences": 2}
SAMPLED = ("sampling", "beam_sampling", "watermark")
THRESHOLD = {"assistant_confidence_threshold": 0.0}
_PARAMS: dict[str, dict[str, Any]] = {
    "beam_search": BEAMS,
    "beam_sampling": BEAMS,
    "diverse_beam_search": {
        "num_beams": 4,
        "num_beam_groups": 2,
        "diversity_penalty": 1.0,
        "num_return_sequences": 2,
    },
    "contrastive_search": {"penalty_alpha": ALPHA, "top_k": K},
    "dola": {"dola_layers": "high"},
    "early_exit": {"assistant_early_exit": 2, "num_assistant_tokens": 3, **THRESHOLD},
    "speculative": {"num_assistant_tokens": 3, "plain_run": True, **THRESHOLD},
    "universal_assisted": {"num_assistant_tokens": 3, **THRESHOLD},
    "prompt_lookup": {"prompt_lookup_num_tokens": 3, "plain_run": True},
}


def params_of(strategy: str) -> dict[str, Any]:
    """Return the parameters with which a strategy gives what ``expected`` says."""
    return dict(_PARAMS.get(strategy, {}))


def expected(
    strategy: str, loaded: LoadedModel, ids: list[int], new: int, seed: int, use_cache: bool
) -> list[list[int]]:
    """Return the new tokens of every sequence, without the engine's own preparation.

    Args:
        strategy: a name of STRATEGIES; drafting is expected to change nothing.
        loaded: the model.
        ids: the prompt.
        new: most new tokens.
        seed: of what is drawn.
        use_cache: whether generate() keeps keys, values and states.
    """
    if strategy == "contrastive_search":
        return [contrastive(loaded, ids, new)]
    if strategy == "dola":
        return [dola(loaded, ids, new)]
    limits = {"max_new_tokens": new, "pad_token_id": 0, "use_cache": use_cache}
    if strategy == "diverse_beam_search":
        # Every step read anew.
        return diverse(loaded, ids, limits | {"use_cache": False})
    kwargs: dict[str, Any] = {"do_sample": strategy in SAMPLED}
    if "beam" in strategy:
        kwargs |= BEAMS
    if strategy == "watermark":
        kwargs["watermarking_config"] = WatermarkingConfig()
    return native(loaded, ids, seed, **limits, **kwargs)


def diverse(loaded: LoadedModel, ids: list[int], limits: dict[str, Any]) -> list[list[int]]:
    """Return two groups' best texts: the loop is compared with 4.55 elsewhere."""
    loop = partial(group_beam_loop, num_beam_groups=2, diversity_penalty=1.0)
    counts = {"num_beams": 4, "num_return_sequences": 2}
    out, _ = run_loop(loop, loaded, [ids], **counts, **limits)
    start = 1 if loaded.is_encoder_decoder else len(ids)
    rows = zip(out.sequences.tolist(), out.lengths, strict=True)
    return [row[start : start + length] for row, length in rows]


@torch.no_grad()
def contrastive(loaded: LoadedModel, ids: list[int], new: int) -> list[int]:
    """Return the tokens of contrastive search (2202.06417), without a cache and one row at a time."""
    text: list[int] = []
    logits, states = _read(loaded, ids, text)
    while len(text) < new:
        probs, tokens = logits.softmax(-1).topk(K)
        read = [_read(loaded, ids, [*text, token]) for token in tokens.tolist()]
        own = torch.stack([after[-1][-1] for _, after in read])
        best = most_promising(probs, states[-1], own)
        text.append(int(tokens[best]))
        logits, states = read[best]
        if text[-1] in loaded.eos_token_ids:
            break
    return text


def most_promising(probs: torch.Tensor, context: torch.Tensor, own: torch.Tensor) -> int:
    """Return which of k candidates contrastive search takes.

    Args:
        probs: (k,).
        context: (places, hidden) states so far.
        own: (k, hidden) the state that each would have.
    """
    scores = []
    for p, state in zip(probs.tolist(), own, strict=True):
        similar = torch.cosine_similarity(context, state[None], dim=-1)
        scores.append((1 - ALPHA) * p - ALPHA * float(similar.max()))
    return scores.index(max(scores))


@torch.no_grad()
def dola(loaded: LoadedModel, ids: list[int], new: int) -> list[int]:
    """Return the tokens of DoLa (2309.03883) with the upper layers, greedily and without a cache."""
    text: list[int] = []
    while len(text) < new:
        logits, states = _read(loaded, ids, text)
        text.append(most_contrasted(loaded, logits, [state[-1] for state in states]))
        if text[-1] in loaded.eos_token_ids:
            break
    return text


def most_contrasted(loaded: LoadedModel, logits: torch.Tensor, states: list[torch.Tensor]) -> int:
    """Return the token that grew most since the upper layer that differs most.

    Args:
        loaded: the model.
        logits: (vocab,) of the last place.
        states: every layer's (hidden,) state there.
    """
    head, layers = loaded.model.get_output_embeddings(), len(states) - 1
    final, found = logits.log_softmax(-1), []
    for layer in range(layers // 2, layers, 2):
        early = head(states[layer]).float().log_softmax(-1)
        mean = (final.exp() + early.exp()) / 2
        parts = [mean * (mean.log() - one) for one in (final, early)]
        found.append((float(sum(part.mean() for part in parts)), early))
    early = max(found, key=lambda pair: pair[0])[1]
    contrast = (final - early).masked_fill(final.exp() < 0.1 * final.exp().max(), -torch.inf)
    return int(contrast.argmax())


def _read(
    loaded: LoadedModel, ids: list[int], text: list[int]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return (vocab,) logits of the last place, and every layer's (places, hidden) states."""
    model = loaded.model
    known = inspect.signature(model.forward).parameters
    kwargs: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
    rows = [ids + text]
    if loaded.is_encoder_decoder:
        start = model.generation_config.decoder_start_token_id
        start = model.generation_config.bos_token_id if start is None else start
        rows = [ids]
        kwargs["decoder_input_ids"] = torch.tensor([[start, *text]], device=loaded.device)
    ids_there = torch.tensor(rows, device=loaded.device)
    out = model(input_ids=ids_there, output_hidden_states=True, **kwargs)
    states = out.decoder_hidden_states if loaded.is_encoder_decoder else out.hidden_states
    return out.logits[0, -1].float(), [state[0] for state in states]
