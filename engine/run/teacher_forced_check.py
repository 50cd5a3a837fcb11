"""Scores the finished texts of a custom method with the model, in one teacher-forced pass."""

from __future__ import annotations

import torch

from engine.errors import ModelError
from engine.loops.recorder import Observation, Recorder, round_decimals, round_significant
from engine.loops.teacher_forced import run_teacher_forced
from engine.messages import Message
from engine.run.preparation import Prepared
from engine.run.recording import Recording
from engine.trace.details import ForwardDetail
from engine.trace.records import EmittedToken, Step, chosen_emit_index, chosen_token_id

_TOP_COUNT = 5
"""Number of most probable tokens kept at every position of a finished text."""
_TOLERANCES = {"torch.float32": 0.02, "torch.float64": 0.02}
_HALF_TOLERANCE = 0.5
"""Nats by which two passes over one text may differ in half precision or quantized weights."""


def rescore_outputs(
    run: Prepared, recording: Recording, rows: list[list[int]]
) -> tuple[tuple[tuple[EmittedToken, ...], ...], tuple[str, ...]]:
    """Return the model's scores of every token of the finished texts, and notes on mismatches.

    Sequences that no hook observed, such as later rows of a batch, get a step per token.

    Args:
        run: the prepared run.
        recording: its record.
        rows: new tokens of every sequence.
    """
    target, prompt = run.target, list(run.prompt_ids)
    context = target.context_length
    # max_new_tokens was cut to the context, but a custom method may ignore it.
    if context is not None and len(prompt) + max(map(len, rows), default=0) > context:
        return (), ("The text is longer than the model's context, so it was not read once more.",)
    first = [step for step in recording.steps if step.sequence == 0]
    from_outside = any(has_forward_detail(step) for step in first)
    emitted: list[tuple[EmittedToken, ...]] = []
    for number, row in enumerate(rows):
        if not row:
            emitted.append(())
            continue
        try:
            with torch.inference_mode():
                logits = run_teacher_forced(target, prompt, row).logits.float()
        except ModelError as error:
            return (), (error.args[0],)  # a template, which can be translated
        except (RuntimeError, ValueError):
            return (), ("The model could not read the finished text once more in one pass.",)
        emitted.append(score_tokens(logits, row))
        if from_outside and number not in recording.outputs:
            for step in steps_from_logits(logits, row, number, run.request.top_candidates):
                recording.add(step, 0)
    odd = count_mismatches(first, emitted[0], target.model.dtype) if emitted else 0
    if not odd:
        return tuple(emitted), ()
    return tuple(emitted), (
        Message(
            "At {odd} of {n} tokens the method's candidates are not what the model says "
            "of the finished text: it gave the model something else to read, or its "
            "record is wrong.",
            odd=odd,
            n=len(rows[0]),
        ),
    )


def score_tokens(logits: torch.Tensor, ids: list[int]) -> tuple[EmittedToken, ...]:
    """Return the model's score of every token of a text.

    Args:
        logits: (new, vocabulary) float32, from one pass over the text.
        ids: token ids of the text, at least one.
    """
    with torch.inference_mode():
        logprobs = torch.log_softmax(logits, -1)
        own = logprobs.gather(-1, torch.tensor(ids, device=logprobs.device)[:, None])
        top = logprobs.topk(min(_TOP_COUNT, logprobs.shape[-1]), -1)
        entropy = torch.special.entr(logprobs.exp()).sum(-1)
        ranks = (logprobs > own).sum(-1).tolist()
    rows = zip(top.indices.tolist(), top.values.exp().tolist(), strict=True)
    columns = zip(own[:, 0].tolist(), ranks, entropy.tolist(), rows, strict=True)
    return tuple(
        EmittedToken(
            round_decimals(logprob),
            rank,
            round_decimals(spread),
            tuple((i, round_significant(min(p, 1.0))) for i, p in zip(*row, strict=True)),
        )
        for logprob, rank, spread, row in columns
    )


def steps_from_logits(logits: torch.Tensor, ids: list[int], sequence: int, top: int) -> list[Step]:
    """Return a step for every token of a sequence that no hook observed.

    Args:
        logits: (new, vocabulary) float32, from one pass over the text.
        ids: token ids of the text, at least one.
        sequence: number of the output.
        top: most candidates of a step.
    """
    with torch.inference_mode():
        total = torch.logsumexp(logits, -1)
        # Without processors the model's own scores are the final ones.
        observation = Observation(logits - total[:, None], total, logits, [])
        rows = Recorder(top).record(observation, torch.tensor(ids, device=logits.device), 0)
    return [
        Step(
            at,
            at,
            (token,),
            row.candidates,
            (),
            ForwardDetail(()),
            row.logsumexp,
            row.entropy,
            0,
            sequence=sequence,
        )
        for at, (token, row) in enumerate(zip(ids, rows, strict=True))
    ]


def count_mismatches(
    steps: list[Step], tokens: tuple[EmittedToken, ...], dtype: torch.dtype
) -> int:
    """Count the tokens whose reported probability differs from the model's own.

    Args:
        steps: the steps that wrote the text.
        tokens: scores of one pass over the text.
        dtype: dtype of the model, which sets the tolerance.
    """
    near, reported = _TOLERANCES.get(str(dtype), _HALF_TOLERANCE), {}
    for step in steps:
        # Tokens that this step rolls back lose their reported probability.
        for place in [place for place in reported if place >= step.keep]:
            del reported[place]
        own = chosen_token_id(step)
        found = next((c for c in step.candidates if c.token_id == own), None)
        if found is not None:
            reported[step.keep + chosen_emit_index(step)] = found.raw_logprob
    return sum(
        place < len(tokens) and abs(tokens[place].logprob - logprob) > near * max(1.0, abs(logprob))
        for place, logprob in reported.items()
    )


def has_forward_detail(step: Step) -> bool:
    """Return whether a step was observed by hooks rather than recorded by a loop."""
    return isinstance(step.detail, ForwardDetail)
