"""Drafting a tree of guesses with a smaller model of the same vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.loops.drafting.assistant import fit_vocabulary
from engine.loops.drafting.draft_forward import free_positions
from engine.loops.drafting.draft_tree import (
    ROOT,
    DraftTree,
    TreeShape,
    grow_dynamic_tree,
    grow_static_tree,
)
from engine.loops.drafting.drafter import (
    NAN_NOTE,
    Draft,
    Drafter,
    RunContext,
    with_drafted_tokens,
)
from engine.loops.drafting.tree_forward import TreeForward
from engine.loops.recorder import run_processors
from engine.messages import Message
from engine.models.model_types import Model


class TreeDrafter(Drafter):
    """Drafts a tree level by level: one pass of the draft model reads all nodes of a level.

    Args:
        context: the run.
        model: the draft model, of the target's vocabulary.
        shape: size of the trees.
    """

    name = "assistant"

    def __init__(self, context: RunContext, model: Model, shape: TreeShape) -> None:
        self.context, self.shape, self.forward = context, shape, TreeForward(model)
        self.vocab = context.model.config.get_text_config(decoder=True).vocab_size

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return a tree of guesses, on no path longer than the budget without one token."""
        if input_ids.shape[1] == self.context.input_ids.shape[1]:
            return self._make_draft(input_ids, DraftTree(), "the first pass reads the prompt alone")
        length = input_ids.shape[1]
        models = self.forward.model, self.context.model
        # The last token of the budget is the target's own.
        room = min(
            self.context.max_length - length - 1, *(free_positions(m, length) for m in models)
        )
        if room < 1:
            return self._make_draft(input_ids, DraftTree(), "the token budget")
        before, read = self.forward.passes, _LevelReader(self, input_ids)
        tree = self._grow(read, min(room, self.shape.depth))
        self.forward.keep([])
        full = len(tree) == self.shape.size
        stop = "the token budget" if room < self.shape.depth else "the tree has no more branches"
        draft = self._make_draft(input_ids, tree, "all that was asked for" if full else stop)
        draft.forwards = self.forward.passes - before
        return draft

    def _grow(self, read: _LevelReader, depth: int) -> DraftTree:
        ends, shape = frozenset(self.context.eos_token_ids), self.shape
        if shape.widths:
            return grow_static_tree(read, ends, shape.widths[:depth])
        return grow_dynamic_tree(read, ends, depth, shape.top_k, shape.nodes)

    def _make_draft(self, input_ids: torch.Tensor, tree: DraftTree, why: str) -> Draft:
        asked = self.shape.size
        reason = Message("asked for {n}; drafted {m}: {why}", n=asked, m=len(tree), why=why)
        return Draft(input_ids.new_tensor(tree.tokens), None, asked, reason, tree=tree)


class _LevelReader:
    """Reads the levels of one tree with the draft model, each token after the filters of the run."""

    def __init__(self, drafter: TreeDrafter, input_ids: torch.Tensor) -> None:
        self.drafter, self.input_ids = drafter, input_ids
        self._slots: dict[int, int] = {}

    def __call__(self, tree: DraftTree, level: Sequence[int]) -> list[torch.Tensor]:
        """Return the (vocab,) log-probabilities after each node of a level; see ``draft_tree.ReadLevel``."""
        forward = self.drafter.forward
        if list(level) == [ROOT]:
            rows = forward.read_text(self.input_ids)[None]
        else:
            parents = [self._slots.get(tree.parents[node], ROOT) for node in level]
            for node in level:
                self._slots[node] = len(self._slots)
            rows = forward.read_nodes([tree.tokens[node] for node in level], parents)
        return [
            self._logprobs(row, [tree.tokens[i] for i in tree.path(node)])
            for row, node in zip(rows, level, strict=True)
        ]

    def _logprobs(self, logits: torch.Tensor, path: list[int]) -> torch.Tensor:
        drafter = self.drafter
        ids = with_drafted_tokens(self.input_ids, path)
        scores = fit_vocabulary(logits[None], drafter.vocab)
        logprobs = run_processors(drafter.context.processors, ids, scores)[0].log_softmax(-1)[0]
        if bool(logprobs.isnan().any()):
            drafter.note = NAN_NOTE
            return torch.full_like(logprobs, -torch.inf)
        return logprobs
