"""Diverse beam search: groups penalised for repeating tokens (1610.02424).

Source: Vijayakumar et al. 2016.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import torch
import transformers

from engine.loops.beams.groups import BeamGroup, run_group_search
from engine.loops.beams.step_record import BeamOutput, StepWriter
from engine.loops.forward import Forward
from engine.loops.prefix_constraint import fit_processors
from engine.loops.recorder import Recorder
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteriaList
from engine.trace.records import Step


class HammingDiversityLogitsProcessor:
    """Penalises a token for every beam of an earlier group that chose it at this step.

    Args:
        penalty: log-probability subtracted per beam, above 0.
        earlier_tokens: (beams of earlier groups,) their tokens of this step.
    """

    def __init__(self, penalty: float, earlier_tokens: torch.Tensor) -> None:
        self.penalty, self.earlier_tokens = penalty, earlier_tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (beams, vocab) scores."""
        del input_ids
        # Empty for the first group, from which nothing is subtracted.
        return scores - self.penalty * torch.bincount(
            self.earlier_tokens, minlength=scores.shape[-1]
        )


def insert_diversity_penalty(processors: Processors, hamming: Any) -> list[Any]:
    """Insert the penalty after the token biases, where transformers had it."""
    at = sum(isinstance(p, transformers.SequenceBiasLogitsProcessor) for p in processors)
    return [*processors[:at], hamming, *processors[at:]]


def group_beam_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    num_beam_groups: int,
    diversity_penalty: float,
    **model_kwargs: Any,
) -> Generator[Step, None, BeamOutput]:
    """Search with groups of beams, one after the other at every step.

    Args:
        model: a generation model whose cache can be reordered.
        input_ids: (num_beams, length) one prompt, repeated.
        logits_processor: applied to log-probabilities, group by group.
        stopping_criteria: the search ends when all open beams meet them.
        generation_config: length_penalty, early_stopping, num_return_sequences.
        recorder: records every step.
        generator: unused.
        num_beam_groups: divides num_beams.
        diversity_penalty: subtracted per beam of an earlier group with the same token, above 0.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per forward pass. Its text is the best hypothesis and may revise the previous one.

    Returns:
        The ``num_return_sequences`` best hypotheses of all groups.
    """
    del generator
    forward, size = (
        Forward(model, generation_config, model_kwargs),
        len(input_ids) // num_beam_groups,
    )
    writer = StepWriter(recorder, forward)
    # generate() made the processors for all beams; a group has fewer rows.
    of_a_group = fit_processors(logits_processor, size)
    groups = [
        BeamGroup(g, input_ids[:1], size, generation_config, writer, diversity_penalty)
        for g in range(num_beam_groups)
    ]

    def processors(earlier_tokens: torch.Tensor) -> Sequence[Any]:
        hamming = HammingDiversityLogitsProcessor(diversity_penalty, earlier_tokens)
        return insert_diversity_penalty(of_a_group, hamming)

    rules = logits_processor, stopping_criteria
    return (yield from run_group_search(forward, groups, processors, rules, writer))
