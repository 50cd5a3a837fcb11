"""Forward passes over a text and a tree of guesses after it, with a mask that shows each node its ancestors."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from engine.loops.drafting.draft_tree import ROOT
from engine.loops.forward import make_empty_cache
from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.capabilities import capabilities_of, computes_exactly
from engine.models.layer_types import has_growing_rotary_tables
from engine.models.model_types import Model

_OWN_DISTANCES = frozenset({"bloom", "gpt_neo", "mpt"})
"""Model types that take distances from places in the cache, which are not positions in a tree."""
_TOLERANCE, _ROUGH_TOLERANCE = 1e-4, 0.03
"""Largest difference of logits between a tree and a plain text, relative to the largest logit: in float32,
and in half precision or with quantised weights."""


class TreeForward:
    """A model whose cache holds a text and, behind it, the nodes of one tree.

    Args:
        model: a decoder-only generation model without an obstacle (``find_tree_obstacle``).

    Attributes:
        passes: forward passes so far.
        length: tokens of the text in the cache.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.cache = model, make_empty_cache(model)
        self.passes = self.length = 0
        self._paths: list[list[int]] = []
        # The head is needed at the last position of a text only.
        self._last_only = {"logits_to_keep": 1} if model._supports_logits_to_keep() else {}

    def read_text(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the (vocab,) float32 logits after ``input_ids`` (1, length), which begins with the text.

        The tree must be empty, and at least one token new.
        """
        new = input_ids[:, self.length :]
        positions = torch.arange(self.length, input_ids.shape[1], device=new.device)
        outputs = self._run(new, positions, **self._last_only)
        self.length = input_ids.shape[1]
        return outputs.logits[0, -1].to(dtype=torch.float32, copy=True)

    def read_nodes(self, tokens: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """Return the (n, vocab) float32 logits after each of n new nodes.

        Args:
            tokens: their tokens.
            parents: the node before each, in the order of reading since the last ``keep``; ROOT is the
                last token of the text.
        """
        for parent in parents:
            above = [] if parent == ROOT else self._paths[parent]
            self._paths.append([*above, len(self._paths)])
        paths = self._paths[-len(tokens) :]
        device = self.model.device
        positions = torch.tensor([self.length + len(path) - 1 for path in paths], device=device)
        ids = torch.tensor([list(tokens)], device=device)
        outputs = self._run(ids, positions, attention_mask=self._mask(paths))
        return outputs.logits[0].to(dtype=torch.float32, copy=True)

    def keep(self, nodes: Sequence[int]) -> None:
        """Make nodes, a path from the root, part of the text and drop all others from the cache."""
        places = [*range(self.length), *(self.length + node for node in nodes)]
        index = torch.tensor(places, dtype=torch.long, device=self.model.device)
        for layer in self.cache.layers:
            if layer.is_initialized:  # cropping keeps a beginning only, and a path may skip nodes
                layer.keys, layer.values = layer.keys[:, :, index], layer.values[:, :, index]
        self.length, self._paths = len(places), []

    def _mask(self, paths: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the (1, 1, n, text + tree) additive mask: 0 for what a node sees."""
        # Floats, since eager attention adds the mask: it would add 1 for True.
        width, kind = self.length + len(self._paths), self.model.dtype
        mask = torch.full((len(paths), width), torch.finfo(kind).min, dtype=kind)
        mask[:, : self.length] = 0
        for row, path in zip(mask, paths, strict=True):
            row[[self.length + node for node in path]] = 0
        return mask[None, None].to(self.model.device)

    @ModelCall(FORWARD_PASS)
    def _run(self, ids: torch.Tensor, positions: torch.Tensor, **extra: Any) -> Any:
        self.passes += 1
        return self.model(
            input_ids=ids,
            position_ids=positions[None],
            past_key_values=self.cache,
            use_cache=True,
            **extra,
        )


def find_tree_obstacle(model: Model) -> str:
    """Return why a model cannot read a draft tree, "" if it can; measured with short passes.

    Args:
        model: a decoder-only generation model; the caller must have its turn.
    """
    arguments = inspect.signature(model.forward).parameters
    config = model.config.get_text_config(decoder=True)
    if not capabilities_of(model).can_crop:
        return "its cache cannot keep one branch of a tree"
    if _measures_distances(config) or "position_ids" not in arguments:
        return "it does not take the position of each token"
    if has_growing_rotary_tables(config):
        return "its positions change with the length of the text"
    if not _is_plain(make_empty_cache(model)):
        return "some of its layers see only the last tokens"
    if getattr(config, "_attn_implementation", "") not in ("eager", "sdpa"):
        return "its attention takes no separate mask for each token"
    with torch.no_grad():
        agrees = _reads_branch_like_text(model)
    return "" if agrees else "it reads a branch in another way than a text"


def _measures_distances(config: Any) -> bool:
    """Return whether attention takes the distance of two tokens from their places in the cache."""
    return bool(getattr(config, "alibi", False)) or config.model_type in _OWN_DISTANCES


def _is_plain(cache: Any) -> bool:
    """Return whether every layer keeps the keys and values of all positions, and nothing else."""
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in cache.layers)


def _reads_branch_like_text(model: Model) -> bool:
    """Return whether a branch gives the logits of a plain text, as does a text after its branch is kept."""
    size = int(model.config.get_text_config(decoder=True).vocab_size)
    start, (other, *branch), last = (
        [(5 + 3 * i) % size for i in r] for r in (range(3), range(3, 6), [6])
    )
    tree, line = TreeForward(model), TreeForward(model)
    for forward in (tree, line):
        forward.read_text(torch.tensor([start], device=model.device))
    # Two guesses for the same place, and one token after the second.
    read = [*tree.read_nodes([other, *branch], [ROOT, ROOT, 1])[1:]]
    plain = [*line.read_nodes(branch, [ROOT, 0])]
    tree.keep([1, 2])
    text = torch.tensor([[*start, *branch, *last]], device=model.device)
    read.append(tree.read_text(text))
    plain.append(TreeForward(model).read_text(text))
    tolerance = _TOLERANCE if computes_exactly(model) else _ROUGH_TOLERANCE
    return _is_plain(tree.cache) and all(
        float((one - two).abs().max()) <= tolerance * float(two.abs().max())
        for one, two in zip(read, plain, strict=True)
    )
