"""The cache of a graph: keys and values stay in its request; what a loop does with them is noted for the next pass."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache

from engine.models.openvino.graphs import SHOWN, Compiled, run
from engine.models.openvino.tracing import KEPT, PICKED, POSITIONS

_LEAST = 64
"""Places given up before it pays to write the state anew without them."""


class GraphCache(Cache):
    """Keys and values of the rows of one text, as transformers' loops use them.

    Rows that are picked, repeated or reordered are picked by the graph in its next pass. Positions that are
    given up stay where they are, hidden from every later pass by the mask, until they are many.

    Args:
        compiled: the graph.
        hides: whether positions may stay where they are; False writes the state anew at once.
    """

    def __init__(self, compiled: Compiled, *, hides: bool) -> None:
        super().__init__(layers=[])
        self.compiled, self.hides = compiled, hides
        self.request = compiled.take()
        self.rows = np.arange(0, dtype=np.int32)
        self.places = np.arange(0)
        """Of the state, those that belong to the text."""
        self.held = 0
        """Positions of the state, hidden ones among them."""
        weakref.finalize(self, compiled.give, self.request)

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
            attention_mask: (rows, length) of the text with the new tokens, 0 at padding; None is none.
            position_ids: (rows, new) or (1, new); None counts on from the text.
            kept: (n,) which of the new positions have logits.
            shown: (m,) which of them show the states of the layers.

        Returns:
            (rows, n, vocab) logits, and (layers + 1, rows, m, hidden) states.
        """
        rows, new = input_ids.shape
        past = len(self.places)
        if not past:
            self.rows = np.arange(rows, dtype=np.int32)
        if position_ids is None:
            position_ids = torch.arange(past, past + new)[None]
        given = {
            "input_ids": input_ids.numpy(),
            "attention_mask": self._mask(attention_mask, rows, new),
            POSITIONS: position_ids.expand(rows, new).numpy(),
            KEPT: kept,
            SHOWN: shown,
            PICKED: self.rows,
        }
        known = self.compiled.inputs
        logits, states = run(self.request, {n: v for n, v in given.items() if n in known})
        self.rows = np.arange(rows, dtype=np.int32)
        self.places = np.concatenate([self.places, np.arange(self.held, self.held + new)])
        self.held += new
        return logits, states

    def _mask(self, mask: torch.Tensor | None, rows: int, new: int) -> np.ndarray:
        """Return (rows, held + new) the mask with the hidden positions in it."""
        past = len(self.places)
        own = np.ones((rows, past + new), np.int64) if mask is None else mask.to(torch.long).numpy()
        if past == self.held:
            return own
        whole = np.zeros((rows, self.held + new), np.int64)
        whole[:, self.places] = own[:, :past]
        whole[:, self.held :] = own[:, past:]
        return whole

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the positions of the text."""
        del layer_idx
        return len(self.places)

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return length and offset of a mask over text and new tokens."""
        del layer_idx
        return len(self.places) + query_length, 0

    @property
    def batch_size(self) -> int:
        """Rows of the text, -1 before the first pass."""
        return len(self.rows) or -1

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Let row i be what row ``beam_idx[i]`` was."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows, in this order; one may be named often or never."""
        if len(self.places):
            self.rows = self.rows[indices.cpu().numpy()]

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Have every row ``repeats`` times, beside each other."""
        if len(self.places):
            self.rows = self.rows.repeat(repeats)

    def crop(self, tokens_to_remove: int) -> None:
        """Give up the last positions.

        Args:
            tokens_to_remove: minus their number.

        Raises:
            ValueError: it is positive.
        """
        if tokens_to_remove > 0:
            raise ValueError(f"crop({tokens_to_remove}): give minus the number of tokens to remove")
        if not tokens_to_remove or not len(self.places):
            return
        self.places = self.places[:tokens_to_remove]
        if not len(self.places):
            self.reset()
        elif not self.hides or self.held - len(self.places) > max(_LEAST, len(self.places) // 2):
            self._write_anew()

    def reset(self) -> None:
        """Forget the text."""
        self.request.reset_state()
        self.rows, self.places, self.held = np.arange(0, dtype=np.int32), np.arange(0), 0

    def _write_anew(self) -> None:
        """Write the state without the positions that were given up."""
        self._copy_from(self, self.places)
        self.held = len(self.places)
        self.places = np.arange(self.held)

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
            twin.rows, twin.held = self.rows.copy(), len(self.places)
            twin.places = np.arange(twin.held)
        return twin

    __copy__ = None  # a shallow copy would share the state
