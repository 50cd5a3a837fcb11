"""The scores and the noise of a sampled step: all that a page needs to decide it again by itself.

The page applies the filters of sampling, whose values its dials change (``PAGE_FILTERS``). The
filters before them keep their settings, so their result is the page's starting point.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.inspection.logits_cache import RECORDED
from engine.inspection.step_ref import StepRef
from engine.inspection.what_if import PassReplay, SettingsChange, apply_change, check_scores
from engine.inspection.what_if_report import likeliest_removed, select_row
from engine.loops.exponential_race import draw_noise
from engine.loops.next_token import next_token_loop
from engine.loops.recorder import Recorder, first_removal
from engine.strategies.base import Strategy

PAGE_FILTERS = ("Temperature", "TopK", "TopP", "MinP", "Typical", "Epsilon", "Eta")
"""Names of the filters that the page applies, in the order of generate()."""
MAX_VOCAB = 65_536
"""Largest vocabulary whose scores are sent to a page: two arrays of 262 kB."""
_LIKELY = 256
"""Number of the most probable tokens whose texts the page gets, before and after the filters."""


@dataclass(frozen=True)
class StepScores:
    """What decides a sampled step.

    Attributes:
        logits: (vocab,) float32 of the model.
        scores: (vocab,) float32 after the filters before PAGE_FILTERS, -inf for removed tokens.
        noise: (vocab,) float32 of the draw, e ~ Exponential(1); None if this machine cannot repeat
            it.
        removed: token id -> name of the filter that removed it, for the likeliest of each filter.
        nameable: ids of the tokens that the page may show: these, the likely ones, and those that
            can win the draw at some temperature.
    """

    logits: torch.Tensor
    scores: torch.Tensor
    noise: torch.Tensor | None
    removed: dict[int, str]
    nameable: tuple[int, ...]


def can_decide_in_page(strategy: Strategy) -> bool:
    """Return whether the steps of a strategy depend only on scores, sampling filters and a draw."""
    if strategy.loop is not next_token_loop:
        return False
    return bool(strategy.generate_kwargs(strategy.config())["do_sample"])


def compute_step_scores(place: StepRef) -> StepScores | None:
    """Return what decides a step, or None if the page cannot decide it by itself.

    It cannot if only the recorded candidates are known, if the vocabulary has more than MAX_VOCAB
    tokens, or if the run has a filter after the first of PAGE_FILTERS that is not one of them.

    Raises:
        EngineError: the processors cannot be built, or one removes every token.
    """
    run = place.run
    size = run.header.model.vocab_size
    if not can_decide_in_page(run.strategy) or place.source == RECORDED or size > MAX_VOCAB:
        return None
    replay = PassReplay(apply_change(run, SettingsChange()))
    names = replay.changed.names
    first = next((i for i, name in enumerate(names) if name in PAGE_FILTERS), len(names))
    if not place.passes or any(name not in PAGE_FILTERS for name in names[first:]):
        return None
    one = place.passes[-1]
    replay.skip_to(one)
    here = one.to(replay.device)
    observation = Recorder().observe(here.logits, here.input_ids, replay.changed.processors[:first])
    check_scores(observation, place.row)
    # For all rows at once, as in the loop: one row alone would get other numbers.
    noise = draw_noise(here.logits, replay.generator) if replay.is_draw_repeatable else None
    observation = select_row(observation, place.row)
    logits, scores = here.logits[place.row].cpu(), observation.scores[0]
    drawn = None if noise is None else noise[place.row].cpu()
    removal_stage = first_removal(observation, torch.arange(size)[None])[0]
    removed = {
        i: names[int(removal_stage[i])]
        for i in likeliest_removed(removal_stage, observation.logprobs[0].exp())
    }
    nameable = {*removed, *_nameable_tokens(logits, scores, drawn).tolist()}
    return StepScores(logits, scores, drawn, removed, tuple(sorted(nameable)))


def _nameable_tokens(
    logits: torch.Tensor, scores: torch.Tensor, noise: torch.Tensor | None
) -> torch.Tensor:
    """Return the ids of likely tokens, and of those that win the race at some temperature."""
    most = min(_LIKELY, len(logits))
    found = [logits.topk(most).indices, scores.topk(most).indices]
    if noise is not None:
        # A token with a lower score wins only if its noise is below that of all tokens before it.
        order = scores.argsort(descending=True)
        drawn = noise[order]
        found.append(order[drawn <= drawn.cummin(0).values])
    return torch.cat(found)
