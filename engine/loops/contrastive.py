"""Contrastive search: likely tokens whose hidden states differ from the context (2202.06417)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.norm() returns.
from __future__ import annotations

import copy
import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers

from engine.loops.forward import Forward, find_cache
from engine.loops.host_transfer import RowValues
from engine.loops.recorder import Recorder, round_decimals, round_significant
from engine.loops.rows import Rows
from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.model_types import GenerationConfig, Model, Outputs, Processors, StoppingCriteria
from engine.trace.details import ContrastiveDetail, ContrastiveOption
from engine.trace.records import Step


@dataclass(frozen=True)
class CandidateRanking:
    """The k candidates of every row with the terms of their scores; all tensors (batch, k).

    Attributes:
        ids: candidate tokens, most probable first.
        probs: model confidence: probability after the processors, in [0, 1].
        cosine: largest cosine similarity to an earlier hidden state, in [-1, 1].
        position: position of that state, padding not counted.
        score: (1 - alpha) * probs - alpha * cosine; -inf for a token a processor removed.
    """

    ids: torch.Tensor
    probs: torch.Tensor
    cosine: torch.Tensor
    position: torch.Tensor
    score: torch.Tensor


def contrastive_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode row by row; run every candidate through the model before choosing one.

    Rows are independent: a row gets the tokens it would get alone.

    Args:
        model: a generation model whose cache can be reordered, or one without a cache.
        input_ids: (batch, length) ids, left-padded where the attention mask says so.
        logits_processor: applied one by one and recorded.
        stopping_criteria: checked after every step.
        generation_config: ``penalty_alpha`` in [0, 1] and ``top_k`` of at least 1.
        recorder: records every step.
        generator: unused; nothing is sampled.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per unfinished row and look-ahead pass. The first of a pass carries its cost.

    Returns:
        (batch, length + new) ids, finished rows padded.
    """
    del generator
    forward = Forward(model, generation_config, model_kwargs)
    alpha = float(generation_config.penalty_alpha)
    detail = partial(contrastive_detail, alpha)
    rows = Rows(forward, input_ids, stopping_criteria, recorder, detail)
    # The prompt pass gives the context's hidden states h_j and the first distribution p.
    # In one piece: a prefill in chunks would lose the hidden states of all but the last.
    yield from rows.run_pass(output_hidden_states=True)
    context, logits = _context_states(forward, rows.outputs), rows.logits
    while rows.are_open:
        # 1. V(k), the k most probable tokens after the processors.
        scores = rows.observe(logits, logits_processor)
        ids = scores.topk(min(generation_config.top_k, scores.shape[-1]), -1).indices
        # 2. One look-ahead pass gives the hidden state h_v that every candidate v would have.
        outputs = run_candidates(forward, rows.ids, ids)
        last = last_hidden_states(outputs)[:, -1]
        states = normalize_states(torch.unflatten(last, 0, ids.shape))
        # 3. The candidate with the largest (1 - alpha) * p(v) - alpha * max_j cos(h_v, h_j).
        ranking = rank_candidates(scores, ids, states, context, alpha)
        chosen = ranking.score.argmax(-1)
        rows.append(ids.gather(-1, chosen[:, None])[:, 0], {"chosen": chosen, **vars(ranking)})
        # 4. The winner was read already: its cache row, hidden state and logits begin the next step.
        context, logits = keep_winning_rows(forward, outputs, states, context, chosen)
        yield from rows.read_steps()
    return rows.ids


@dataclass(frozen=True)
class ContextStates:
    """Hidden states of the context, which candidates are compared with.

    Attributes:
        states: (batch, positions, hidden) of prompt and output, each of length 1.
        padding: (batch, 1) padded positions on the left; None if no row is padded.
        start: positions before the text, part of neither prompt nor output.
    """

    states: torch.Tensor
    padding: torch.Tensor | None
    start: int


def _context_states(forward: Forward, outputs: Outputs) -> ContextStates:
    """Return the context states after the pass over the prompt."""
    states, seq2seq = (
        normalize_states(last_hidden_states(outputs)),
        forward.model.config.is_encoder_decoder,
    )
    # Some models put image embeddings before the text; they are not context.
    states = states[:, max(0, states.shape[1] - forward.first) :]
    mask = forward.model_kwargs.get("decoder_attention_mask" if seq2seq else "attention_mask")
    padding = None
    # generate() passes no mask if nothing is padded.
    if mask is not None:
        padding = (mask[:, : states.shape[1]] == 0).sum(-1, keepdim=True)
        padding = padding if bool(padding.any()) else None
    # With a text encoder, the output begins after the decoder start token.
    reads_prompt = seq2seq and forward.model.main_input_name == "input_ids"
    return ContextStates(states, padding, int(reads_prompt))


def normalize_states(states: torch.Tensor) -> torch.Tensor:
    """Return (…, hidden) states scaled to length 1."""
    lengths: torch.Tensor = states.norm(dim=-1, keepdim=True)
    return states / lengths


@ModelCall(FORWARD_PASS)
def last_hidden_states(outputs: Outputs) -> torch.Tensor:
    """Return (rows, positions, hidden) of the last layer, the decoder's if there are two."""
    states = getattr(outputs, "decoder_hidden_states", None)
    return (outputs.hidden_states if states is None else states)[-1]


@ModelCall(FORWARD_PASS)
def run_candidates(forward: Forward, input_ids: torch.Tensor, ids: torch.Tensor) -> Any:
    """Run every candidate as the next token of a separate copy of the row.

    Args:
        forward: its cache has one row per sequence before the call and k after it.
        input_ids: (batch, length) ids so far.
        ids: (batch, k) candidates.

    Returns:
        The model's outputs for (batch * k, 1) tokens.
    """
    model, k = forward.model, ids.shape[1]
    if len(ids) > 1 or not _share_cache_row(forward, 0, k):
        # Recurrent layers have no batch repeat, but every cache can be reordered.
        forward.reorder(torch.arange(len(ids), device=ids.device).repeat_interleave(k))
    kwargs = dict(forward.model_kwargs)
    encoder_decoder = model.config.is_encoder_decoder
    if encoder_decoder:
        # transformers' helper below writes into the encoder outputs.
        kwargs["encoder_outputs"] = copy.copy(kwargs["encoder_outputs"])
    rows, kwargs = model._expand_inputs_for_generation(
        expand_size=k, is_encoder_decoder=encoder_decoder, input_ids=input_ids, **kwargs
    )
    candidates = torch.cat([rows, ids.reshape(-1, 1)], dim=-1)
    new = 1 if forward.uses_cache else None
    inputs = model.prepare_inputs_for_generation(candidates, next_sequence_length=new, **kwargs)
    outputs = model(**inputs, output_hidden_states=True, return_dict=True)
    forward.passes += 1
    forward.model_kwargs = model._update_model_kwargs_for_generation(
        outputs, forward.model_kwargs, is_encoder_decoder=encoder_decoder
    )
    return outputs


def keep_winning_rows(
    forward: Forward,
    outputs: Outputs,
    states: torch.Tensor,
    context: ContextStates,
    chosen: torch.Tensor,
) -> tuple[ContextStates, torch.Tensor]:
    """Keep the winning candidates' cache rows; return the new context states and next logits.

    Args:
        forward: its cache has k rows per sequence before the call and one after it.
        outputs: of the look-ahead pass.
        states: (batch, k, hidden) state of each candidate, of length 1.
        context: the context states without the candidates.
        chosen: (batch,) index of the winning candidate.
    """
    # Candidate i of sequence b is row b * k + i.
    rows = chosen + torch.arange(len(chosen), device=chosen.device) * states.shape[1]
    if len(chosen) > 1 or not _share_cache_row(forward, int(chosen[0]), 1):
        forward.reorder(rows)
    grown_by = states.flatten(0, 1)[rows][:, None]
    context = replace(context, states=torch.cat([context.states, grown_by], dim=1))
    return context, forward.last_logits(outputs, chosen.device)[rows]


def _share_cache_row(forward: Forward, row: int, copies: int) -> bool:
    """Expand one cache row to ``copies`` rows without copying; return False if impossible.

    Only plain dynamic layers qualify: they append new tensors, so their rows may share memory.
    """
    found = find_cache(forward.model_kwargs) if forward.uses_cache else None
    if found is None or type(found[1]) is not transformers.DynamicCache:
        return False
    layers: list[Any] = found[1].layers
    if any(type(layer) is not transformers.DynamicLayer for layer in layers):
        return False
    for layer in layers:
        if layer.get_seq_length():
            layer.keys, layer.values = (
                kept[row : row + 1].expand(copies, -1, -1, -1)
                for kept in (layer.keys, layer.values)
            )
    return True


def rank_candidates(
    scores: torch.Tensor,
    ids: torch.Tensor,
    states: torch.Tensor,
    context: ContextStates,
    alpha: float,
) -> CandidateRanking:
    """Score candidates by model confidence and degeneration penalty.

    Args:
        scores: (batch, vocab) logits after the processors.
        ids: (batch, k) candidates.
        states: (batch, k, hidden) hidden states of the candidates, of length 1.
        context: hidden states of prompt and output.
        alpha: weight of the degeneration penalty, 0 to 1.
    """
    kept = scores.gather(-1, ids)
    probs = torch.softmax(scores, dim=-1).gather(-1, ids)
    # (batch, k, positions); all states have length 1, so the products are cosines.
    cosines = states @ context.states.transpose(1, 2)
    before = context.padding
    if before is not None:
        places = torch.arange(cosines.shape[-1], device=cosines.device)
        least = torch.finfo(cosines.dtype).min
        cosines = cosines.masked_fill((places < before)[:, None], least)
    cosine, position = cosines.float().max(dim=-1)
    position = position - context.start
    if before is not None:
        position = position - before
    # With alpha 0 this is greedy search.
    score = (1.0 - alpha) * probs - alpha * cosine
    # With fewer than k tokens left, a removed token must not win by being dissimilar.
    score = score.masked_fill(kept == -torch.inf, -torch.inf)
    return CandidateRanking(ids, probs, cosine, position, score)


def contrastive_detail(alpha: float, numbers: RowValues) -> ContrastiveDetail:
    """Return the record of one row's ranking, without tokens a processor removed."""
    columns = (numbers[name] for name in ("ids", "probs", "cosine", "position", "score"))
    options = tuple(
        ContrastiveOption(
            token_id=int(token_id),
            probability=round_significant(p),
            confidence=round_significant((1.0 - alpha) * p),
            max_cosine=round_decimals(cosine),
            degeneration_penalty=round_decimals(alpha * cosine),
            position=int(position),
            score=round_decimals(score),
        )
        for token_id, p, cosine, position, score in zip(*columns, strict=True)
        if score > -math.inf
    )
    return ContrastiveDetail(options, int(numbers["chosen"][0]))
