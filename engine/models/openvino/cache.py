"""KV cache inside a graph's infer request; row and position changes are applied in the next pass."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache

from engine.models.openvino.graphs import STATE_POSITIONS, CompiledGraph, run_request
from engine.models.openvino.tracer import LOGIT_POSITIONS, POSITION_IDS, ROW_INDICES

_MIN_HIDDEN = 64
"""Hidden positions up to which rewriting the state without them does not pay."""


class GraphCache(Cache):
    """A transformers Cache whose keys and values stay in the graph's state.

    Selected, repeated or reordered rows are gathered by the graph in its next pass. Cropped positions stay
    in the state, hidden by the mask, until there are many.

    Args:
        compiled: the graph.
        hides: whether cropped positions may stay in the state. False rewrites the state at once.
    """

    def __init__(self, compiled: CompiledGraph, *, hides: bool) -> None:
        super().__init__(layers=[])
        self.compiled, self.hides = compiled, hides
        self.request = compiled.acquire_request()
        self.rows = np.arange(0, dtype=np.int32)
        self.places = np.arange(0)
        """Positions of the state that belong to the text."""
        self.state_length = 0
        """Number of positions in the state, including hidden ones."""
        # The request goes back to the pool when the cache is freed.
        weakref.finalize(self, compiled.release_request, self.request)

    def read(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        kept: np.ndarray,
        shown: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the graph on new tokens.

        Args:
            input_ids: (rows, new) ids.
            attention_mask: (rows, length) over text and new tokens, 0 at padding; None for no padding.
            position_ids: (rows, new) or (1, new); None continues from the text.
            kept: (n,) indices of the new positions to return logits for.
            shown: (m,) indices of the new positions to return hidden states for.

        Returns:
            (rows, n, vocab) logits and (layers + 1, rows, m, hidden) hidden states.
        """
        rows, new = input_ids.shape
        past = len(self.places)
        if not past:
            self.rows = np.arange(rows, dtype=np.int32)
        if position_ids is None:
            position_ids = torch.arange(past, past + new)[None]
        inputs = {
            "input_ids": input_ids.numpy(),
            "attention_mask": self._full_mask(attention_mask, rows, new),
            POSITION_IDS: position_ids.expand(rows, new).numpy(),
            LOGIT_POSITIONS: kept,
            STATE_POSITIONS: shown,
            ROW_INDICES: self.rows,
        }
        known = self.compiled.inputs
        logits, states = run_request(self.request, {n: v for n, v in inputs.items() if n in known})
        self.rows = np.arange(rows, dtype=np.int32)
        self.places = np.concatenate(
            [self.places, np.arange(self.state_length, self.state_length + new)]
        )
        self.state_length += new
        return logits, states

    def _full_mask(self, mask: torch.Tensor | None, rows: int, new: int) -> np.ndarray:
        """Return the mask (rows, held + new) over the state, with 0 at hidden positions."""
        past = len(self.places)
        own = np.ones((rows, past + new), np.int64) if mask is None else mask.to(torch.long).numpy()
        if past == self.state_length:
            return own
        whole = np.zeros((rows, self.state_length + new), np.int64)
        whole[:, self.places] = own[:, :past]
        whole[:, self.state_length :] = own[:, past:]
        return whole

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of positions of the text."""
        del layer_idx
        return len(self.places)

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the length and offset of a mask over text and new tokens."""
        del layer_idx
        return len(self.places) + query_length, 0

    @property
    def batch_size(self) -> int:
        """Number of rows, -1 before the first pass."""
        return len(self.rows) or -1

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Reorder the rows: row i becomes the former row ``beam_idx[i]``."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Select rows in this order; a row may occur several times or not at all."""
        if len(self.places):
            self.rows = self.rows[indices.cpu().numpy()]

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row ``repeats`` times, next to each other."""
        if len(self.places):
            self.rows = self.rows.repeat(repeats)

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last positions.

        Args:
            tokens_to_remove: their number, negated.

        Raises:
            ValueError: the number is positive.
        """
        if tokens_to_remove > 0:
            raise ValueError(f"crop({tokens_to_remove}): give minus the number of tokens to remove")
        if not tokens_to_remove or not len(self.places):
            return
        self.places = self.places[:tokens_to_remove]
        if not len(self.places):
            self.reset()
        elif not self.hides or self.state_length - len(self.places) > max(
            _MIN_HIDDEN, len(self.places) // 2
        ):
            self._compact_state()

    def reset(self) -> None:
        """Empty the cache."""
        self.request.reset_state()
        self.rows, self.places, self.state_length = np.arange(0, dtype=np.int32), np.arange(0), 0

    def _compact_state(self) -> None:
        """Rewrite the state without its hidden positions."""
        self._copy_from(self, self.places)
        self.state_length = len(self.places)
        self.places = np.arange(self.state_length)

    def _copy_from(self, other: GraphCache, places: np.ndarray) -> None:
        import openvino as ov

        found = {state.name: state for state in other.request.query_state()}
        for state in self.request.query_state():
            values = found[state.name].state.data
            state.state = ov.Tensor(np.ascontiguousarray(values[:, :, places]))

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphCache:
        del memo
        twin = GraphCache(self.compiled, hides=self.hides)
        if len(self.places):
            twin._copy_from(self, self.places)
            twin.rows, twin.state_length = self.rows.copy(), len(self.places)
            twin.places = np.arange(twin.state_length)
        return twin

    __copy__ = None  # a shallow copy would share the graph's state
