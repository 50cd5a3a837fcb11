"""Decoding with draft trees: the target reads a whole tree in one pass and follows its own choices through it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import torch

from engine.errors import ModelError
from engine.loops.drafting.draft_tree import ROOT, DraftTree
from engine.loops.drafting.drafter import Draft, RunContext, with_drafted_tokens
from engine.loops.drafting.round_record import AfterRun, RoundVerification, RoundWriter
from engine.loops.drafting.tree_drafter import TreeDrafter
from engine.loops.drafting.tree_forward import TreeForward
from engine.loops.exponential_race import draw_tokens
from engine.loops.forward import select_media_inputs
from engine.loops.recorder import Recorder
from engine.loops.rows import cut_at_stop
from engine.trace.records import Step


def tree_loop(
    context: RunContext,
    drafter: TreeDrafter,
    recorder: Recorder,
    after: AfterRun | None,
    model_kwargs: dict[str, Any],
) -> Generator[Step, None, torch.Tensor]:
    """Decode one sequence in rounds of drafting a tree and walking through it.

    Sampling draws one token per place, as plain sampling does. A seed therefore gives the text of plain
    sampling, and no ratio of probabilities is needed.

    Args:
        context: the run.
        drafter: drafts the trees.
        recorder: records every round.
        after: measures the finished run; None to measure nothing.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per round: the accepted tokens and the one the target adds.

    Returns:
        (1, length + new) ids.

    Raises:
        ModelError: the prompt has a picture or a sound.
    """
    input_ids = context.input_ids
    if select_media_inputs(model_kwargs, input_ids.shape[1]):
        raise ModelError("draft_tree = true: a draft tree can follow text alone.")
    target = TreeForward(context.model)
    rounds, finished = RoundWriter(recorder, context, drafter, target), False
    while not finished:
        # 1. The drafter proposes a tree; the first pass reads the prompt, with nothing behind it.
        guess = rounds.draft(input_ids)
        # 2. One pass of the target reads the whole tree. From the last token of the text it goes to the
        #    child that holds its own choice, and on from there, until no child holds it.
        outcome = _walk(read_tree(target, input_ids, guess), guess, input_ids, rounds, context)
        emitted, finished = cut_at_stop(input_ids, outcome.written(guess), context.stopping)
        # 3. The cache forgets all branches but this one.
        if not finished:
            target.keep([0, *(node + 1 for node in outcome.path)] if len(guess.tokens) else [])
        input_ids = with_drafted_tokens(input_ids, emitted)
        yield rounds.make_step(guess, outcome, emitted)
    yield from rounds.measure(after, input_ids, model_kwargs)
    return input_ids


def read_tree(target: TreeForward, input_ids: torch.Tensor, guess: Draft) -> torch.Tensor:
    """Return the (nodes + 1, vocab) logits after the text and after every node of a draft."""
    # The last token of the text is not in the cache yet, unless this is the first pass.
    if not len(guess.tokens):
        return target.read_text(input_ids)[None]
    tree = _tree_of(guess)
    tokens = [int(input_ids[0, -1]), *tree.tokens]
    return target.read_nodes(tokens, [ROOT, *(parent + 1 for parent in tree.parents)])


def _walk(
    logits: torch.Tensor,
    guess: Draft,
    input_ids: torch.Tensor,
    rounds: RoundWriter,
    context: RunContext,
) -> RoundVerification:
    """Follow the target's choices through a tree.

    Args:
        logits: (nodes + 1, vocab) of the target, those after the text first.
        guess: the draft.
        input_ids: (1, length) text.
        rounds: applies the processors at each place.
        context: the run.
    """
    tree, here, path = _tree_of(guess), ROOT, list[int]()
    p = logits.new_full((len(tree),), torch.nan)
    while True:
        text = with_drafted_tokens(input_ids, [tree.tokens[node] for node in path])
        scores = rounds.observe(logits[here + 1], text)
        probs = torch.softmax(scores[0], dim=-1)
        children = tree.children(here)
        for node in children:
            p[node] = probs[tree.tokens[node]]
        chosen = draw_tokens(scores, context.generator)[0] if context.do_sample else scores.argmax()
        final = int(chosen)
        found = [node for node in children if tree.tokens[node] == final]
        if not found:
            source = "bonus" if path and not children else "target"
            q = p.new_tensor(tree.logprobs).exp()
            return RoundVerification(len(path), final, source, p, q, None, probs, path=tuple(path))
        here = found[0]
        path.append(here)


def _tree_of(guess: Draft) -> DraftTree:
    assert guess.tree is not None
    return guess.tree
