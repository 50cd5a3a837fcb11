"""Assisted decoding: a drafter proposes tokens, one forward pass of the target verifies them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateUsage=false
# torch does not say what Tensor.tolist() returns; the private names are transformers' helpers.
from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any

import torch

from engine.errors import ModelError
from engine.loops.drafting.cache_snapshot import snapshot_cache
from engine.loops.drafting.drafter import Draft, MakeDrafter, RunContext
from engine.loops.drafting.round_record import RoundVerification, RoundWriter
from engine.loops.drafting.tree_drafter import TreeDrafter
from engine.loops.drafting.tree_loop import tree_loop
from engine.loops.exponential_race import draw_noise, draw_tokens
from engine.loops.forward import find_cache
from engine.loops.recorder import Recorder
from engine.loops.rows import cut_at_stop
from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.capabilities import capabilities_of
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteria
from engine.trace.records import Step


def assisted_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    make_drafter: MakeDrafter,
    after: Any = None,
    **model_kwargs: Any,
) -> Generator[Step, None, torch.Tensor]:
    """Decode one sequence in rounds of drafting and verification.

    Args:
        model: the target, a generation model.
        input_ids: (1, length) prompt ids.
        logits_processor: applied at every verified position.
        stopping_criteria: checked after every token, so a text ends where plain decoding would.
        generation_config: ``do_sample``, the budget and the draft settings.
        recorder: records every round.
        generator: the run's random generator; numbers are drawn in transformers' order.
        make_drafter: builds the drafter of this run.
        after: measures the finished run; see ``lossless_check``. None to measure nothing.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per round: the accepted tokens and the one the target adds.

    Returns:
        (1, length + new) ids.
    """
    rules = logits_processor, generation_config, generator, stopping_criteria
    context = RunContext(model, input_ids, *rules)
    if isinstance(drafter := make_drafter(context), TreeDrafter):
        return (yield from tree_loop(context, drafter, recorder, after, model_kwargs))
    target = TargetForward(model, model_kwargs, shows_states=drafter.reads_states)
    rounds, finished = RoundWriter(recorder, context, drafter, target), False
    while not finished:
        # 1. The drafter proposes tokens x_1 … x_n, with probabilities q if it has any.
        guess = rounds.draft(input_ids)
        # 2. One target pass over the draft gives p_1 … p_n+1, each through the processors.
        # Processors see tokens that may be rejected, so guidance, which keeps a state, is refused.
        candidate = torch.cat([input_ids, guess.tokens[None].to(input_ids.device)], dim=-1)
        scores = rounds.process(target(candidate, len(guess.tokens)), candidate)
        # 3. x_i is accepted while u_i <= p_i / q_i, or while the target would choose it too. One
        #    more token comes from what p exceeds q by, or from p_n+1 after a whole draft.
        outcome = verify_draft(guess, scores, context.do_sample, generator, context.weight)
        emitted, finished = cut_at_stop(input_ids, outcome.written(guess), stopping_criteria)
        # 4. The cache forgets rejected tokens, and the drafter learns how far it was right.
        if not finished:
            target.rewind(len(guess.tokens), len(emitted))
        drafter.learn_outcome(len(emitted) - 1, len(guess.tokens))
        if drafter.reads_states:
            drafter.learn_states(*target.verified_states(len(guess.tokens), len(emitted)))
        input_ids = torch.cat([input_ids, input_ids.new_tensor([emitted])], dim=-1)
        yield rounds.make_step(guess, outcome, emitted)
    yield from rounds.measure(after, input_ids, target.first_kwargs)
    return input_ids


class TargetForward:
    """The target's passes over several new positions, with a cache that can be rewound.

    Args:
        model: a generation model that can be rewound, or one without a cache.
        model_kwargs: as generate() prepared them.

    Attributes:
        passes: forward passes so far.
        given: the arguments of the first pass.

    Raises:
        ModelError: the model's cache can neither be cropped nor restored.
    """

    def __init__(
        self, model: Model, model_kwargs: dict[str, Any], *, shows_states: bool = False
    ) -> None:
        self.shows_states = shows_states
        self.model, self.model_kwargs, self.first_kwargs = model, model_kwargs, dict(model_kwargs)
        self.first, self.saved, self.passes = True, None, 0
        found = find_cache(model_kwargs) if model_kwargs["use_cache"] else None
        self.name, self.cache = found or ("", None)
        can = capabilities_of(model)
        if not can.can_rewind:
            raise ModelError(
                "{model} cannot go back over rejected tokens.", model=type(model).__name__
            )
        self.restores = self.cache is not None and not can.can_crop
        if self.cache is not None and not self.restores:
            # A sliding window must keep what it would drop, in case the draft is rejected.
            self.cache.activate_past_recording()

    @ModelCall(FORWARD_PASS)
    def __call__(self, candidate: torch.Tensor, drafted: int) -> torch.Tensor:
        """Return (drafted + 1, vocab) float32 logits of the last positions of (1, n) ids."""
        if self.restores:
            # A recurrent state cannot be cropped, so the pass starts from a snapshot.
            self.saved = snapshot_cache(self.cache)
        self.candidate, self.before = candidate, self.first
        self._run_pass(candidate, drafted)
        return self.outputs.logits[0, -drafted - 1 :].to(
            dtype=torch.float32, device=candidate.device, copy=True
        )

    @ModelCall(FORWARD_PASS)
    def _run_pass(self, candidate: torch.Tensor, drafted: int) -> None:
        """Run the model on the new part of (1, n) ids, whose last ``drafted`` are unverified."""
        from transformers.generation import candidate_generator as helpers

        model, kwargs = self.model, copy.copy(self.model_kwargs)
        seq2seq = model.config.is_encoder_decoder
        # transformers' own helpers: every model prepares masks and positions of several tokens its way.
        kwargs = helpers._prepare_attention_mask(kwargs, candidate.shape[1], seq2seq)
        kwargs = helpers._prepare_token_type_ids(kwargs, candidate.shape[1])
        positions = kwargs.get("position_ids")
        if positions is not None and drafted:
            length = drafted + positions.shape[-1]
            kwargs = helpers._prepare_position_ids(kwargs, length, seq2seq)
        inputs = model.prepare_inputs_for_generation(
            candidate,
            next_sequence_length=None if self.first or self.cache is None else drafted + 1,
            is_first_iteration=self.first,
            **kwargs,
        )
        # Only the drafted positions and the one before them need logits.
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = drafted + 1
        if self.shows_states:
            inputs["output_hidden_states"] = -1  # 5.23 keeps the last layer's alone
        self.outputs = model(**inputs, return_dict=True)
        self.first, self.passes = False, self.passes + 1

    def verified_states(self, drafted: int, emitted: int) -> tuple[torch.Tensor, int]:
        """Return the (1, n, width) last states of the pass up to the verified length, and that length."""
        excess, states = drafted + 1 - emitted, self.outputs.hidden_states[-1]
        return states[:, : states.shape[1] - excess], self.candidate.shape[1] - excess

    @ModelCall(FORWARD_PASS)
    def rewind(self, drafted: int, emitted: int) -> None:
        """Drop rejected positions from the cache; a recurrent state takes another pass for it."""
        excess = drafted + 1 - emitted
        if self.cache is not None and not self.restores:
            self.cache.crop(-excess)  # 5.23 takes only 0 and negative lengths
        elif self.cache is not None and excess:
            self.first, self.cache = self.before, self.saved
            self.model_kwargs = self.model_kwargs | {self.name: self.cache}
            self._run_pass(self.candidate[:, : self.candidate.shape[1] - excess], emitted - 1)
        self.model_kwargs = self.model._update_model_kwargs_for_generation(
            self.outputs,
            self.model_kwargs,
            is_encoder_decoder=self.model.config.is_encoder_decoder,
            num_new_tokens=emitted,
        )


def verify_draft(
    guess: Draft,
    scores: torch.Tensor,
    do_sample: bool,
    generator: torch.Generator,
    weight: float | None = None,
) -> RoundVerification:
    """Verify a draft.

    Args:
        guess: n drafted tokens, with the draft's scores if the drafter has them.
        scores: (n + 1, vocab) the target's processed logits.
        do_sample: sample, or take the most probable token.
        generator: source of u and of the draw.
        weight: verify against w * p + (1 - w) * q (2604.07622), w in (0, 1); None for p alone.
    """
    n = len(guess.tokens)
    probs = torch.softmax(scores, dim=-1)
    places = torch.arange(n, device=scores.device)
    tokens = guess.tokens.to(scores.device)
    p = probs[places, tokens]
    q_all = None if guess.scores is None else torch.softmax(guess.scores.to(scores.device), dim=-1)
    q = None if q_all is None else q_all[places, tokens]
    if do_sample and q_all is not None and q is not None:
        return _speculative_sampling(probs, q_all, p, q, generator, weight)
    judged = scores
    if weight is not None and q_all is not None:
        probs = judged = torch.cat([weight * probs[:-1] + (1 - weight) * q_all, probs[-1:]])
    # Without q, transformers samples every position and accepts the draft while it agrees.
    chosen = draw_tokens(scores, generator)[0] if do_sample else judged.argmax(-1)
    # The tokens before the first difference.
    accepted = int((~(chosen[:-1] == tokens)).cumsum(-1).lt(1).sum())
    source = "bonus" if accepted == n and n else "target"
    return RoundVerification(accepted, int(chosen[accepted]), source, p, q, None, probs[accepted])


def _speculative_sampling(
    probs: torch.Tensor,
    q_all: torch.Tensor,
    p: torch.Tensor,
    q: torch.Tensor,
    generator: torch.Generator,
    weight: float | None,
) -> RoundVerification:
    """Speculative sampling (2211.17192, algorithm 1): accept while u <= p / q, then resample.

    For a mixture v = w * p + (1 - w) * q the ratio v / q is 1 - w + w * p / q. The residual
    max(v - q, 0) is proportional to max(p - q, 0), so it stays the same.
    """
    n = len(p)
    ratio = p / q if weight is None else 1 - weight + weight * (p / q)
    # All n numbers at once, as transformers does, even those after the first rejection.
    u = torch.rand(p.shape, generator=generator, device=p.device, dtype=p.dtype)
    accepted = int((~(u <= ratio)).cumsum(-1).lt(1).sum())
    rest = (
        residual_distribution(probs[accepted], q_all[accepted]) if accepted < n else probs[accepted]
    )
    # The race of ``torch.multinomial``: the argmax of p / e is a sample.
    noise = draw_noise(rest, generator)
    final = int((rest / noise).argmax())
    source = "resampled" if accepted < n else "bonus"
    return RoundVerification(accepted, final, source, p, q, u, rest)


def residual_distribution(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return (vocab,) residual distribution max(p - q, 0) / sum, sampled after a rejection."""
    rest = torch.clamp(p - q, min=0)
    total = rest.sum()
    # If p equals q to the last bit, a rejection is a rounding error; sample from p.
    return rest / total if float(total) > 0 else p
