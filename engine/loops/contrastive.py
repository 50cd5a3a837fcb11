"""Contrastive search: a likely token whose hidden state says something new (2202.06417)."""

from __future__ import annotations

import copy
import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from engine.loops.columns import Columns
from engine.loops.forward import Forward
from engine.loops.recorder import Observation, Recorder, Row, rounded, significant
from engine.loops.rows import grown, row_steps
from engine.trace.details import ContrastiveDetail, ContrastiveOption
from engine.trace.records import Step


@dataclass(frozen=True)
class Ranking:
    """The k candidates of every row, as contrastive search weighs them; all (batch, k).

    Attributes:
        ids: candidate tokens, most probable first.
        probs: their probability after the processors, in [0, 1].
        cosine: largest cosine of the candidate's hidden state with any earlier one, in [-1, 1].
        position: the earlier position that has it, padding not counted.
        score: (1 - alpha) * probs - alpha * cosine; -inf for a token a processor removed.
    """

    ids: torch.Tensor
    probs: torch.Tensor
    cosine: torch.Tensor
    position: torch.Tensor
    score: torch.Tensor

    def columns(self) -> Columns:
        """Return the numbers for the record."""
        return vars(self)


def contrastive_loop(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode row by row, running every candidate through the model before choosing.

    Rows never look at each other; a row's tokens are those it has alone.

    Args:
        model: a generation model whose cache can be reordered, or one that keeps nothing.
        input_ids: (batch, length) ids, left-padded where the attention mask says so.
        logits_processor: applied one by one and recorded.
        stopping_criteria: asked after every step.
        generation_config: ``penalty_alpha`` in [0, 1] and ``top_k`` of at least 1.
        recorder: makes the records.
        generator: unused; nothing is drawn.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per unfinished row and look-ahead pass; the first of a pass carries its cost.

    Returns:
        (batch, length + new) ids, finished rows padded.
    """
    del generator
    forward = Forward(model, generation_config, model_kwargs)
    prompt_length, index, alpha = input_ids.shape[1], 0, float(generation_config.penalty_alpha)
    unfinished = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
    # The prompt pass: one hidden state per position to compare with, and the first distribution.
    outputs = forward(input_ids, output_hidden_states=True)
    context, logits = last_hidden(outputs), forward.last_logits(outputs, input_ids.device)
    while unfinished.max() != 0:
        # 1. The k most probable tokens after the processors.
        seen = recorder.observe(logits, input_ids, logits_processor)
        # 2. All of them through the model, one row each, and the most promising of every row.
        k = min(generation_config.top_k, seen.scores.shape[-1])
        ids = seen.scores.topk(k, dim=-1).indices
        outputs = look_ahead(forward, input_ids, ids)
        hidden = last_hidden(outputs)[:, -1].unflatten(0, ids.shape)
        ranking = rank(seen, ids, hidden, context, forward, alpha)
        chosen = ranking.score.argmax(-1)
        # 3. The winners' rows of cache, hidden state and logits are the next step's.
        context, logits = win(forward, outputs, hidden, context, chosen)
        # 4. The question whether to go on, then the record.
        tokens = ids.gather(-1, chosen[:, None])[:, 0]
        keep, cost = input_ids.shape[1] - prompt_length, 1 if index else 2
        records = recorder.record(seen, tokens, keep, ranking.columns())
        input_ids, before = grown(input_ids, tokens, unfinished, generation_config), unfinished
        unfinished = unfinished & ~stopping_criteria(input_ids, None)
        detail = partial(detail_of, chosen.tolist(), alpha)
        place = {"index": index, "keep": keep, "cost": cost}
        decided = tokens.tolist(), before.tolist()
        index = yield from row_steps(recorder, records, *decided, detail, **place)
    return input_ids


def last_hidden(outputs: Any) -> torch.Tensor:
    """Return (rows, positions, hidden) of the last layer, the decoder's where there are two."""
    states = getattr(outputs, "decoder_hidden_states", None)
    return (outputs.hidden_states if states is None else states)[-1]


def look_ahead(forward: Forward, input_ids: torch.Tensor, ids: torch.Tensor) -> Any:
    """Run every candidate as the next token of its own copy of the row.

    Args:
        forward: its cache has one row per sequence before and k per sequence after the call.
        input_ids: (batch, length) ids so far.
        ids: (batch, k) candidates.

    Returns:
        The model's outputs for (batch * k, 1) tokens.
    """
    model, k = forward.model, ids.shape[1]
    # Layers with a running state cannot be repeated as such, but reordered every cache can be.
    forward.reorder(torch.arange(len(ids), device=ids.device).repeat_interleave(k))
    kwargs = dict(forward.model_kwargs)
    encoder_decoder = model.config.is_encoder_decoder
    if encoder_decoder:
        # The helper below writes into the encoder's outputs.
        kwargs["encoder_outputs"] = copy.copy(kwargs["encoder_outputs"])
    rows, kwargs = model._expand_inputs_for_generation(
        expand_size=k, is_encoder_decoder=encoder_decoder, input_ids=input_ids, **kwargs
    )
    candidates = torch.cat([rows, ids.reshape(-1, 1)], dim=-1)
    new = 1 if forward.caches else None
    inputs = model.prepare_inputs_for_generation(candidates, next_sequence_length=new, **kwargs)
    outputs = model(**inputs, output_hidden_states=True, return_dict=True)
    forward.passes += 1
    forward.model_kwargs = model._update_model_kwargs_for_generation(
        outputs, forward.model_kwargs, is_encoder_decoder=encoder_decoder
    )
    return outputs


def win(
    forward: Forward,
    outputs: Any,
    hidden: torch.Tensor,
    context: torch.Tensor,
    chosen: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keep the winners' rows of the cache; return the states and the logits they lead to.

    Args:
        forward: its cache has k rows per sequence before and one after the call.
        outputs: of the look-ahead pass.
        hidden: (batch, k, hidden) the state of each candidate.
        context: (batch, positions, hidden) states of prompt and output so far.
        chosen: (batch,) which candidate won.
    """
    rows = chosen + torch.arange(len(chosen), device=chosen.device) * hidden.shape[1]
    forward.reorder(rows)
    context = torch.cat([context, hidden.flatten(0, 1)[rows][:, None]], dim=1)
    return context, forward.last_logits(outputs, chosen.device)[rows]


def padding_mask(forward: Forward, context: torch.Tensor) -> torch.Tensor | None:
    """Return (batch, positions) booleans, True at real tokens; None when there is no padding."""
    name = "decoder_attention_mask" if forward.model.config.is_encoder_decoder else "attention_mask"
    mask = forward.model_kwargs.get(name)
    return None if mask is None else mask[:, : context.shape[1]].bool()


def rank(
    seen: Observation,
    ids: torch.Tensor,
    hidden: torch.Tensor,
    context: torch.Tensor,
    forward: Forward,
    alpha: float,
) -> Ranking:
    """Weigh confidence against similarity to what was already said.

    Args:
        seen: the step's distribution after the processors.
        ids: (batch, k) candidates.
        hidden: (batch, k, hidden) the state each candidate would have.
        context: (batch, positions, hidden) states of prompt and output so far.
        forward: knows where padding is, and whether the model is an encoder-decoder.
        alpha: weight of the similarity, 0 to 1.
    """
    mask = padding_mask(forward, context)
    kept = seen.scores.gather(-1, ids)
    probs = torch.softmax(seen.scores, dim=-1).gather(-1, ids)
    unit = context / context.norm(dim=-1, keepdim=True)
    cosines = (hidden / hidden.norm(dim=-1, keepdim=True)) @ unit.transpose(1, 2)
    if mask is not None:
        cosines = cosines.masked_fill(~mask[:, None], torch.finfo(cosines.dtype).min)
    cosine, position = cosines.float().max(dim=-1)
    if forward.model.config.is_encoder_decoder:
        position = position - 1  # the decoder's start token is neither prompt nor output
    if mask is not None:
        position = position - (~mask).sum(-1, keepdim=True)
    score = (1.0 - alpha) * probs - alpha * cosine
    # With fewer than k tokens left a forbidden one must not win by being dissimilar.
    score = score.masked_fill(kept == -torch.inf, -torch.inf)
    return Ranking(ids, probs, cosine, position, score)


def detail_of(chosen: list[int], alpha: float, row: Row, sequence: int) -> ContrastiveDetail:
    """Read one row's ranking; tokens a processor removed took no part."""
    columns = (row.extra[name] for name in ("ids", "probs", "cosine", "position", "score"))
    options = tuple(
        ContrastiveOption(
            token_id=int(token_id),
            probability=significant(p),
            confidence=significant((1.0 - alpha) * p),
            max_cosine=rounded(cosine),
            degeneration_penalty=rounded(alpha * cosine),
            position=int(position),
            score=rounded(score),
        )
        for token_id, p, cosine, position, score in zip(*columns, strict=True)
        if score > -math.inf
    )
    return ContrastiveDetail(options, chosen[sequence])
