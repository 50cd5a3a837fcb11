"""DoLa: decode by contrasting the last layer with a premature one (2309.03883)."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial
from typing import Any

import torch

from engine.errors import DecodeError, ModelError
from engine.loops import logit_lens as layer_tools
from engine.loops.forward import Forward
from engine.loops.host_transfer import Columns
from engine.loops.logit_lens import LayerDistributions, candidate_layers, round_reading
from engine.loops.next_token import draw_detail, draw_tokens
from engine.loops.recorder import Recorder, Row
from engine.loops.rows import append_tokens, row_steps
from engine.trace.details import LayerDetail
from engine.trace.records import Step

RELATIVE_TOP = 0.1
"""Adaptive plausibility: tokens below this share of the top probability are masked."""
RECORDED_TOKENS = 8


class LayerContrast:
    """The layer contrast as the first processor of a step, so it is recorded as a stage.

    Args:
        contrast: (batch, vocab) final minus premature log-probability, -inf where masked.
        layers: the distributions it came from, for questions about other layers.
    """

    def __init__(self, contrast: torch.Tensor, layers: LayerDistributions | None = None) -> None:
        self.contrast, self.layers = contrast, layers

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the contrast in place of ``scores``."""
        del input_ids, scores
        return self.contrast


def dola_loop(
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
    """Decode row by row; every row chooses its own premature layer.

    Args:
        model: a decoder-only generation model.
        input_ids: (batch, length) ids, left-padded where the attention mask says so.
        logits_processor: applied to the contrast one by one and recorded.
        stopping_criteria: checked after every step.
        generation_config: ``dola_layers``; ``do_sample`` decides between argmax and sampling.
        recorder: records every step.
        generator: the run's random generator; unused when greedy.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per unfinished row and forward pass. The first of a pass carries its cost.

    Returns:
        (batch, length + new) ids, finished rows padded.

    Raises:
        EngineError: ``dola_layers`` leaves no layer, or the model returns no hidden states.
    """
    candidates = _contrast_candidates(model, generation_config.dola_layers)
    forward = Forward(model, generation_config, model_kwargs)
    (batch, prompt_length), index = input_ids.shape, 0
    unfinished = torch.ones(batch, dtype=torch.long, device=input_ids.device)
    while unfinished.max() != 0:
        # 1. The distributions of the last layer and of every earlier one.
        outputs = forward(input_ids, output_hidden_states=True)
        logits = forward.last_logits(outputs, input_ids.device)
        states = _layer_states(model, outputs, max(candidates))
        layers = layer_tools.project_layers(model, states, logits)
        # 2. The premature layer, and the contrast with it, recorded as the first stage.
        premature = select_premature_layer(layers.divergence, candidates)
        contrast = contrast_layers(layers, premature)
        rules = [LayerContrast(contrast, layers), *logits_processor]
        seen = recorder.observe(logits, input_ids, rules)
        # 3. The decision.
        sample, scores = generation_config.do_sample, seen.scores
        tokens, race = draw_tokens(scores, generator) if sample else (scores.argmax(-1), {})
        # 4. Stopping criteria, then the record.
        keep, before = input_ids.shape[1] - prompt_length, unfinished
        own = _contrast_columns(layers, premature, contrast, tokens)
        rows = recorder.record(seen, tokens, keep, {**own, **race})
        input_ids = append_tokens(input_ids, tokens, unfinished, generation_config)
        unfinished = unfinished & ~stopping_criteria(input_ids, None)
        told = tokens.tolist(), before.tolist(), partial(dola_detail, candidates, layers.count)
        index = yield from row_steps(recorder, rows, *told, index=index, keep=keep)
    return input_ids


def _contrast_candidates(model: Any, chosen: Any) -> tuple[int, ...]:
    """Return the layers to choose the premature one from; see ``candidate_layers``.

    Raises:
        DecodeError: there are none.
    """
    candidates = model_candidate_layers(model, chosen)
    if not candidates:
        raise DecodeError("dola_layers leaves no layer of this model to contrast with.")
    return candidates


def _layer_states(model: Any, outputs: Any, deepest: int) -> Any:
    """Return the hidden states of a pass.

    Raises:
        ModelError: the model does not return those of all its layers.
    """
    states = outputs.hidden_states
    if len(states) <= deepest:
        raise ModelError(
            f"{type(model).__name__} shows {len(states)} states instead of its layers."
        )
    return states


def model_candidate_layers(model: Any, chosen: Any) -> tuple[int, ...]:
    """Return the candidate layers of a model; see ``candidate_layers``."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    return candidate_layers(chosen, count, layer_tools.is_tied(model))


def select_premature_layer(divergence: torch.Tensor, candidates: tuple[int, ...]) -> torch.Tensor:
    """Return (batch,) premature layers: candidates with the largest (batch, layers) divergence."""
    layers = torch.tensor(candidates, device=divergence.device)
    return layers[divergence[:, layers].argmax(-1)]


def contrast_layers(layers: LayerDistributions, premature: torch.Tensor) -> torch.Tensor:
    """Return (batch, vocab) final minus premature log-probability.

    Tokens below a tenth of the top final probability become -inf (adaptive plausibility).
    """
    rows = torch.arange(len(premature), device=premature.device)
    final = layers.final
    threshold = final.max(-1, keepdim=True).values + math.log(RELATIVE_TOP)
    # An implausible token may have grown most of all between the layers, so it is masked.
    contrast = final - layers.raw[rows, premature]
    return contrast.masked_fill(final < threshold, -torch.inf)


def _contrast_columns(
    layers: LayerDistributions,
    premature: torch.Tensor,
    contrast: torch.Tensor,
    tokens: torch.Tensor,
) -> Columns:
    top = min(RECORDED_TOKENS, contrast.shape[-1])
    before, after = layers.final.topk(top, dim=-1), contrast.topk(top, dim=-1)
    return {
        "premature": premature,
        "kept": (contrast > -torch.inf).sum(-1),
        "final_ids": before.indices,
        "final_values": before.values.exp(),
        "contrast_ids": after.indices,
        "contrast_values": after.values,
        **layer_tools.layer_columns(layers, tokens),
    }


def dola_detail(candidates: tuple[int, ...], layers: int, row: Row, sequence: int) -> LayerDetail:
    """Return the record of one row; ``contrast_top`` leaves out masked tokens.

    Args:
        candidates: candidate layers.
        layers: decoder layers of the model.
        row: the record of one row.
        sequence: row number, unused.
    """
    del sequence
    numbers = row.extra
    before, after = (
        tuple(
            (int(token_id), round_reading(value))
            for token_id, value in zip(
                numbers[f"{name}_ids"], numbers[f"{name}_values"], strict=True
            )
            if value > -math.inf
        )
        for name in ("final", "contrast")
    )
    [premature], [kept] = numbers["premature"], numbers["kept"]
    return LayerDetail(
        layers=layer_tools.unpack_readings(numbers, layers),
        candidate_layers=candidates,
        premature_layer=int(premature),
        kept=int(kept),
        final_top=before,
        contrast_top=after,
        draw=draw_detail(numbers) if "racers" in numbers else None,
    )
