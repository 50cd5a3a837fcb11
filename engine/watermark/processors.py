"""transformers' two watermark processors, with a record and a faster selfhash.

transformers finds a selfhash green list by permuting the whole vocabulary for each of the 40 best
tokens. The first random numbers of ``torch.randperm`` alone show whether one token is in its list.
On a CPU they are the Mersenne Twister's, which numpy draws directly; the result is checked
against torch once per vocabulary. On other devices transformers' own way is used.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import torch
from transformers import (
    SynthIDTextWatermarkingConfig,
    SynthIDTextWatermarkLogitsProcessor,
    WatermarkingConfig,
    WatermarkLogitsProcessor,
)

from engine.watermark.schemes import GreenList, Scheme, SynthId

TESTED_CANDIDATES = 40
"""Best tokens that selfhash tests per step, as in transformers and the paper's code."""
_SEED_MODULUS = 2**64 - 1


class GreenListProcessor(WatermarkLogitsProcessor):
    """Adds the bias as transformers does and records per row which tokens got it."""

    def __init__(self, vocab_size: int, device: torch.device | str, scheme: GreenList) -> None:
        super().__init__(vocab_size, device, **vars(scheme))
        self.scheme = scheme
        self.boosted: list[dict[int, bool] | torch.Tensor | None] = []
        """Last call, per row: green ids (lefthash), tested id -> green (selfhash), or None."""
        # numpy can reproduce the random numbers of the CPU only.
        quick = torch.device(device).type == "cpu" and self.greenlist_size > 0
        self.quick = quick and _is_shuffle_known(vocab_size)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (batch, vocab) scores with the bias on green tokens."""
        if input_ids.shape[-1] < self.context_width:
            self.boosted = [None] * len(input_ids)
            return scores
        marked = scores.clone()
        self.boosted = []
        for row, ids in enumerate(input_ids):
            if self.seeding_scheme == "lefthash":
                green = self._get_greenlist_ids(cast(torch.LongTensor, ids))
                self.boosted.append(green)
            else:
                tested = self._top_candidates(scores[row])
                greens = self.find_green_candidates(ids, tested.tolist())
                self.boosted.append(dict(zip(tested.tolist(), greens, strict=True)))
                green = tested[torch.tensor(greens, device=ids.device)]
            # A token that is ruled out stays at -inf, whatever its colour.
            marked[row, green] = marked[row, green] + self.bias
        return marked

    def _top_candidates(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the best ids in the order of transformers' full sort, without -inf."""
        top = min(TESTED_CANDIDATES, self.vocab_size)
        best = scores.topk(min(top + 1, self.vocab_size))
        ids = best.indices
        cut = best.values[-1]
        # With a tie at the cut, topk may choose other tokens than the sort.
        if len(ids) > top and best.values[top - 1] == cut and cut > -torch.inf:
            ids = scores.sort(dim=-1, descending=True).indices
        return ids[:top][scores[ids[:top]] > -torch.inf]

    def find_green_candidates(self, ids: torch.Tensor, candidates: list[int]) -> list[bool]:
        """Return for each candidate whether it would be green after ``ids``.

        Args:
            ids: (length,) ids so far, at least ``context_width``.
            candidates: token ids.
        """
        before = ids[len(ids) - self.scheme.window + 1 :].tolist()
        return self.find_green_windows([[*before, token] for token in candidates])

    def find_green_windows(self, windows: list[list[int]]) -> list[bool]:
        """Return for each n-gram whether its last token is green.

        Args:
            windows: n-grams of ``scheme.window`` ids.
        """
        if not windows:
            return []
        if not self.quick:
            return [self._is_window_green(window) for window in windows]
        seeds = self._window_seeds(np.array(windows, dtype=np.int64))
        tokens = [window[-1] for window in windows]
        return find_in_heads(seeds, tokens, self.vocab_size, self.greenlist_size)

    def draw_key(self, window: list[int]) -> tuple[int, ...]:
        """Return the key of an n-gram's draw: the seed and the last token.

        Args:
            window: an n-gram of ``scheme.window`` ids; different n-grams can share a draw.
        """
        [seed] = self._window_seeds(np.array([window], dtype=np.int64))
        return (seed, window[-1])

    def _is_window_green(self, window: list[int]) -> bool:
        # lefthash asks for the list after a context; selfhash seeds with the judged token, too.
        prefix = window if self.seeding_scheme == "selfhash" else window[:-1]
        ids = torch.tensor(prefix, device=self.fixed_table.device)
        return bool((self._get_greenlist_ids(cast(torch.LongTensor, ids)) == window[-1]).any())

    @cached_property
    def _table(self) -> np.ndarray:
        return self.fixed_table.cpu().numpy()

    def _window_seeds(self, windows: np.ndarray) -> list[int]:
        """Return the seed of every n-gram; products wrap at 64 bits as in torch."""
        if self.seeding_scheme == "lefthash":
            return [self.hash_key * int(token) % _SEED_MODULUS for token in windows[:, -2]]
        hashes = self._table[windows % self.table_size] + 1
        with np.errstate(over="ignore"):
            products = np.int64(self.hash_key) * hashes * hashes[:, -1:]
        return [int(value) % _SEED_MODULUS for value in products.min(-1)]


def find_in_heads(seeds: list[int], tokens: list[int], vocab_size: int, head: int) -> list[bool]:
    """Return for each pair whether ``torch.randperm(vocab_size, seed)[:head]`` contains the token.

    Args:
        seeds: 0 to 2**64 - 2; the Mersenne Twister uses the low 32 bits.
        tokens: one token per seed.
        vocab_size: length of the permutation.
        head: length of the head, 1 to vocab_size - 1.
    """
    # torch swaps place i with i + random % (vocab_size - i) and never touches place i again, so the
    # first ``head`` steps decide which tokens are in the head.
    places = np.arange(head, dtype=np.uint32)
    sizes = np.uint32(vocab_size) - places
    twister = np.random.MT19937()
    found = []
    for seed, token in zip(seeds, tokens, strict=True):
        twister._legacy_seeding(seed & 0xFFFFFFFF)  # type: ignore[attr-defined]
        partner = twister.random_raw(head).astype(np.uint32) % sizes + places
        found.append(_is_moved_to_head(partner, token, head))
    return found


def _is_moved_to_head(partner: np.ndarray, place: int, head: int) -> bool:
    """Follow the token at ``place`` through the swaps; return whether it ends in the head."""
    start = 0
    while True:
        # A step that names the token's place moves it into the head, where it stays. The step at that
        # place moves the token to another one.
        if (partner[start : min(place, head)] == place).any():
            return True
        if place >= head:
            return False
        moved = int(partner[place])
        if moved == place:
            return True
        start, place = place + 1, moved


@lru_cache(maxsize=16)
def _is_shuffle_known(vocab_size: int) -> bool:
    """Return whether torch's permutation on this machine is the one of ``find_in_heads``."""
    head = max(1, vocab_size // 4)
    # The second seed does not fit into 32 bits, so its upper ones must be ignored.
    for seed in (7, 2**40 + 12345):
        drawn = torch.Generator("cpu").manual_seed(seed)
        order = torch.randperm(vocab_size, generator=drawn, device="cpu").tolist()
        sample = [*order[: min(head, 20)], *order[head : head + 20]]
        expected = [True] * min(head, 20) + [False] * len(order[head : head + 20])
        if find_in_heads([seed] * len(sample), sample, vocab_size, head) != expected:
            return False
    return True


class SynthIdProcessor(SynthIDTextWatermarkLogitsProcessor):
    """transformers' processor; records per row whether its last call marked a token."""

    scheme: SynthId
    marked: list[bool]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (batch, vocab) scores after the tournament."""
        before = self.state.context_history if self.state is not None else None
        result = super().__call__(cast(torch.LongTensor, input_ids), scores)
        state: Any = self.state  # the first call creates it
        if self.skip_first_ngram_calls and state.num_calls < self.ngram_len:
            self.marked = [False] * len(scores)
        # The first context has no earlier one to repeat.
        elif before is None:
            self.marked = [True] * len(scores)
        else:
            # transformers puts the hash of the context first, also of a repeated one.
            newest = state.context_history[:, :1]
            self.marked = (~(before == newest).any(1)).tolist()
        return result

    def draw_key(self, window: list[int]) -> tuple[int, ...]:
        """Return the key of an n-gram's draw: the n-gram itself."""
        return tuple(window)

    def g_values_after(self, context: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return (rows, n, depth) g-values of tokens after a context.

        Args:
            context: (rows, ngram_len - 1) ids.
            tokens: (rows, n) ids.
        """
        keys, _ = self._compute_keys(
            cast(torch.LongTensor, context), cast(torch.LongTensor, tokens)
        )
        return self.sample_g_values(keys)


def make_processor(scheme: Scheme, vocab_size: int, device: torch.device | str) -> Any:
    """Return the processor of a scheme; its random numbers depend on the device."""
    if isinstance(scheme, GreenList):
        return GreenListProcessor(vocab_size, device, scheme)
    device = torch.device(device)
    processor = SynthIdProcessor(**{**vars(scheme), "keys": list(scheme.keys)}, device=device)
    processor.scheme, processor.marked = scheme, []
    return processor


class _GreenListConfig(WatermarkingConfig):
    """Makes generate() build our processor in place of its own."""

    def construct_processor(
        self, vocab_size: int, device: torch.device | str
    ) -> GreenListProcessor:
        return make_processor(GreenList(**self.to_dict()), vocab_size, device)


class _SynthIdConfig(SynthIDTextWatermarkingConfig):
    """Makes generate() build our processor in place of its own."""

    # transformers says that this returns a WatermarkLogitsProcessor, which it does not either.
    def construct_processor(self, vocab_size: int, device: torch.device | str) -> Any:
        values = self.to_dict()
        return make_processor(
            SynthId(**{**values, "keys": tuple(values["keys"])}), vocab_size, device
        )


def to_watermarking_config(scheme: Scheme) -> Any:
    """Return the ``watermarking_config`` with which generate() applies a scheme."""
    if isinstance(scheme, GreenList):
        return _GreenListConfig(**vars(scheme))
    return _SynthIdConfig(**{**vars(scheme), "keys": list(scheme.keys)})
