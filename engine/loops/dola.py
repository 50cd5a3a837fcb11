"""DoLa: decode by contrasting the last layer with a premature one (2309.03883)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator
from functools import partial
from typing import Any

import torch

from engine.errors import DecodeError, ModelError
from engine.loops import logit_lens as layer_tools
from engine.loops.exponential_race import choose_tokens, draw_detail
from engine.loops.forward import Forward
from engine.loops.host_transfer import Columns, RowValues
from engine.loops.logit_lens import LayerDistributions, candidate_layers, round_reading
from engine.loops.prefix_constraint import mask_by_constraints
from engine.loops.recorder import Recorder
from engine.loops.rows import Rows
from engine.models.capabilities import layer_count
from engine.models.model_types import GenerationConfig, Model, Outputs, Processors, StoppingCriteria
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
        premature: (batch,) the layers it was contrasted with.
        allowed: (batch, vocab) tokens that the run's constraints allow; None without any.
    """

    def __init__(
        self,
        contrast: torch.Tensor,
        layers: LayerDistributions | None = None,
        premature: torch.Tensor | None = None,
        allowed: torch.Tensor | None = None,
    ) -> None:
        self.contrast, self.layers = contrast, layers
        self.premature, self.allowed = premature, allowed

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the contrast in place of ``scores``."""
        del input_ids, scores
        return self.contrast


def dola_loop(
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
    rows = Rows(forward, input_ids, stopping_criteria, recorder, partial(dola_detail, candidates))
    drawn = generator if generation_config.do_sample else None
    while (yield from rows.run_pass(output_hidden_states=True)):
        # 1. q_N, the distribution of the last layer N, and q_j of every earlier layer j.
        states = _layer_states(model, rows.outputs, max(candidates))
        layers = layer_tools.project_layers(model, states, rows.logits)
        # 2. The premature layer M: the candidate whose q_M is farthest from q_N.
        premature = select_premature_layer(layers.divergence, candidates)
        # 3. The contrast log q_N - log q_M of the plausible tokens, then every processor in turn.
        # Tokens are plausible among the allowed ones: a cut before might leave none that is allowed.
        allowed = mask_by_constraints(logits_processor, rows.ids, rows.logits)
        possible = keep_allowed(layers, allowed)
        contrast = contrast_layers(possible, premature)
        # The processors act on the contrast; a repetition penalty of 1.2 is recommended there.
        first = LayerContrast(contrast, possible, premature, allowed)
        scores, noise = rows.process([first, *logits_processor], drawn)
        # 4. The decision, as in greedy search and sampling.
        tokens, race = choose_tokens(scores, noise)
        rows.append(tokens, {**_contrast_columns(layers, premature, contrast, tokens), **race})
    return rows.ids


def _contrast_candidates(model: Model, chosen: Any) -> tuple[int, ...]:
    """Return the layers to choose the premature one from; see ``candidate_layers``.

    Raises:
        DecodeError: there are none.
    """
    candidates = model_candidate_layers(model, chosen)
    if not candidates:
        raise DecodeError("dola_layers leaves no layer of this model to contrast with.")
    return candidates


def _layer_states(model: Model, outputs: Outputs, deepest: int) -> Any:
    """Return the hidden states of a pass.

    Raises:
        ModelError: the model does not return those of all its layers.
    """
    states = outputs.hidden_states
    if len(states) <= deepest:
        raise ModelError(
            "{model} shows {n} states instead of its layers.",
            model=type(model).__name__,
            n=len(states),
        )
    # Several streams in each layer, or states of another width.
    if states[0].ndim != outputs.logits.ndim or states[0].shape[-1] != states[-1].shape[-1]:
        raise ModelError(
            "{model} shows states between its layers that its head cannot read.",
            model=type(model).__name__,
        )
    return states


def model_candidate_layers(model: Model, chosen: Any) -> tuple[int, ...]:
    """Return the candidate layers of a model; see ``candidate_layers``."""
    return candidate_layers(chosen, layer_count(model), layer_tools.is_tied(model))


def select_premature_layer(divergence: torch.Tensor, candidates: tuple[int, ...]) -> torch.Tensor:
    """Return (batch,) premature layers: candidates with the largest (batch, layers) divergence."""
    # Row by row: in transformers 4.55 the mean over the batch decides, so texts depend on each other.
    layers = torch.tensor(candidates, device=divergence.device)
    return layers[divergence[:, layers].argmax(-1)]


def keep_allowed(layers: LayerDistributions, allowed: torch.Tensor | None) -> LayerDistributions:
    """Return the distributions with -inf in ``final`` for tokens that are not allowed."""
    if allowed is None:
        return layers
    return dataclasses.replace(layers, final=layers.final.masked_fill(~allowed, -torch.inf))


def contrast_layers(
    layers: LayerDistributions, premature: torch.Tensor, relative_top: float | None = None
) -> torch.Tensor:
    """Return (batch, vocab) final minus premature log-probability.

    Tokens below ``relative_top``, by default ``RELATIVE_TOP``, of the top final probability become
    -inf (adaptive plausibility).
    """
    rows = torch.arange(len(premature), device=premature.device)
    final = layers.final
    threshold = final.max(-1, keepdim=True).values + math.log(relative_top or RELATIVE_TOP)
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
        "layers": torch.full_like(premature, layers.count),
        "premature": premature,
        "kept": (contrast > -torch.inf).sum(-1),
        "final_ids": before.indices,
        "final_values": before.values.exp(),
        "contrast_ids": after.indices,
        "contrast_values": after.values,
        **layer_tools.layer_columns(layers, tokens),
    }


def dola_detail(candidates: tuple[int, ...], numbers: RowValues) -> LayerDetail:
    """Return the record of one row; ``contrast_top`` leaves out masked tokens."""
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
    [layers], [premature], [kept] = (numbers[name] for name in ("layers", "premature", "kept"))
    return LayerDetail(
        layers=layer_tools.unpack_readings(numbers, int(layers)),
        candidate_layers=candidates,
        premature_layer=int(premature),
        kept=int(kept),
        final_top=before,
        contrast_top=after,
        draw=draw_detail(numbers),
    )
