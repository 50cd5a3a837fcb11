"""Batched passes over the newest token of several runs of different lengths.

Each row stores its keys from position 0 on, in a buffer as long as the longest row; positions behind its
end are masked. So nothing is copied between steps, and rows can join and leave between passes. vLLM and
gpt-fast separate rows in the same way. A batched product may differ from that of one row in the last
digits; the difference is measured once per model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from engine.models.cuda_graphs import has_full_attention
from engine.models.loading import LoadedModel
from engine.models.model_types import Model

BLOCK = 256
"""Buffer lengths are rounded up to a multiple of this."""
MAX_DIFFERENCE = 1e-3
"""Largest tolerated logit difference between batched and single passes; above it a model is not batched."""
SAFETY_FACTOR = 16
"""Factor on the measured difference."""
_MIN_DIFFERENCE = 2e-6
"""Smallest assumed difference, in nats: the last digit of a typical float32 logit."""
_PROBE_LENGTHS = (5, 12)
_PROBE_STEPS = 4
_ATTENTION_KINDS = ("sdpa", "eager")


class Seat:
    """One row of a batch.

    Attributes:
        row: its current index; it changes when other rows leave.
        length: number of positions read.
    """

    def __init__(self, row: int, length: int) -> None:
        self.row, self.length = row, length


class _SlotLayer(CacheLayerMixin):
    """Cache layer with the keys and values of all rows; see ``Slots``."""

    def __init__(self, slots: Slots, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.slots = slots
        self.keys, self.values = (
            _allocate(like, slots.most, slots.positions) for like in (keys, values)
        )
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the tensors exist already."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one position at the end of each row; return the keys and values up to the longest row."""
        del args, kwargs
        slots, views = self.slots, []
        for kept, new in ((self.keys, key_states), (self.values, value_states)):
            assert kept is not None
            # Texts differ in length, so every row is written at an end of its own.
            kept[slots.rows, :, slots.ends] = new[:, :, 0]
            views.append(kept[: len(new), :, : slots.longest])
        return views[0], views[1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of positions and the offset 0."""
        del query_length
        return self.slots.longest, 0

    def get_seq_length(self) -> int:
        """Return the number of positions before the current pass."""
        # The longest row counts the position of this pass already.
        return self.slots.longest - 1

    def get_max_length(self) -> int:
        """Return the capacity in positions."""
        return self.slots.positions

    def grow(self, positions: int) -> None:
        """Enlarge the buffers to this number of positions."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = _allocate(old, self.slots.most, positions)
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)


def _allocate(like: torch.Tensor, rows: int, positions: int) -> torch.Tensor:
    """Return zeros (rows, heads, positions, width), with dtype and device of a (…, heads, …, width) tensor."""
    return like.new_zeros(rows, like.shape[1], positions, like.shape[3])


def _cache_layers(cache: Cache) -> list[Any]:
    return list(cache.layers)


class Slots:
    """The batch of one model; used by one thread only.

    Args:
        model: a decoder for which ``can_share_passes`` holds.
        most: capacity in rows.
    """

    def __init__(self, model: Model, most: int) -> None:
        self.model, self.most = model, most
        self.positions = self.longest = 0
        self.seats: list[Seat] = []
        self._cache: Cache | None = None
        self.rows = self.ends = torch.zeros(0, dtype=torch.long)

    @property
    def free(self) -> int:
        """Number of free rows."""
        return self.most - len(self.seats)

    def add_rows(self, cache: DynamicCache) -> list[Seat]:
        """Add all rows of a cache at the end of the batch; return their seats."""
        length, count = cache.get_seq_length(), _cache_layers(cache)[0].keys.shape[0]
        self._ensure_capacity(length + 1, cache)
        seats = [Seat(len(self.seats) + i, length) for i in range(count)]
        self.seats += seats
        self.write_rows(seats, cache)
        return seats

    def write_rows(self, seats: list[Seat], cache: DynamicCache) -> None:
        """Overwrite the rows of these seats with the rows of a cache."""
        length = cache.get_seq_length()
        for own, layer in zip(self._layers, _cache_layers(cache), strict=True):
            for kept, new in ((own.keys, layer.keys), (own.values, layer.values)):
                for i, seat in enumerate(seats):
                    kept[seat.row, :, :length] = new[i]
        for seat in seats:
            seat.length = length

    def remove_rows(self, seats: list[Seat]) -> None:
        """Remove rows; the last rows of the batch move into the gaps."""
        for seat in seats:
            last = self.seats.pop()
            if last is seat:
                continue
            for layer in self._layers:
                for kept in (layer.keys, layer.values):
                    kept[seat.row, :, : last.length] = kept[last.row, :, : last.length]
            self.seats[seat.row] = last
            last.row = seat.row

    def read_tokens(self, tokens: dict[Seat, int]) -> torch.Tensor:
        """Read one more token for some rows, in one pass over all rows.

        Args:
            tokens: seat -> id; rows without an entry do not change.

        Returns:
            (rows, vocab) logits in the model's dtype; rows without an entry have meaningless values.
        """
        self._ensure_capacity(max(seat.length for seat in self.seats) + 1)
        device = self.model.device
        ends = torch.tensor([seat.length for seat in self.seats])
        self.longest = int(ends.max()) + 1
        ids = torch.tensor([[tokens.get(seat, 0)] for seat in self.seats], device=device)
        behind = torch.arange(self.longest)[None] > ends[:, None]
        masked = torch.finfo(self.model.dtype).min
        mask = torch.zeros(behind.shape, dtype=self.model.dtype).masked_fill_(behind, masked)
        self.ends, self.rows = ends.to(device), torch.arange(len(self.seats), device=device)
        # The mask is (rows, 1, 1, positions): one query for each row, for all of its heads.
        outputs = self.model(
            input_ids=ids,
            attention_mask=mask[:, None, None].to(device),
            position_ids=self.ends[:, None],
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
        )
        # Rows without a token wrote a dummy position at their end; their next token overwrites it.
        for seat in tokens:
            seat.length += 1
        return outputs.logits[:, -1]

    @property
    def _layers(self) -> list[Any]:
        assert self._cache is not None
        return self._cache.layers

    def _ensure_capacity(self, length: int, like: DynamicCache | None = None) -> None:
        """Make sure that each row has capacity for this many positions."""
        if length > self.positions:
            self.positions = math.ceil(length / BLOCK) * BLOCK
            for layer in self._layers if self._cache is not None else ():
                layer.grow(self.positions)
        if self._cache is None and like is not None:
            layers: list[Any] = [_SlotLayer(self, of.keys, of.values) for of in _cache_layers(like)]
            self._cache = Cache(layers=layers)


PassRequest = Callable[["SharedCache", "torch.Tensor"], "torch.Tensor | None"]
"""Takes a run's cache and its (rows, 1) newest ids; returns (rows, vocab) logits, or None for a single pass."""


class SharedCache(DynamicCache):
    """A run's cache whose one-token passes may be batched with other runs.

    Args:
        slots: holds its rows while the run is batched.
        ask: makes a batched pass, or declines it.

    Attributes:
        seats: its rows in the batch; empty while the run is not batched.
        apart: whether its run must not be batched, because of what it does with the scores.
        tolerance: nats by which the last logits may differ from those of a single pass.
    """

    def __init__(self, slots: Slots, ask: PassRequest) -> None:
        super().__init__(config=slots.model.config.get_text_config(decoder=True))
        self.slots, self.ask = slots, ask
        self.seats: list[Seat] = []
        self.apart = False
        self.tolerance = 0.0

    def join_batch(self, margin: float) -> None:
        """Join the batch from the next pass on, if it has free rows.

        Args:
            margin: result of ``measure_margin``.
        """
        if self.slots.free >= _cache_layers(self)[0].keys.shape[0]:
            self.seats, self.tolerance = self.slots.add_rows(self), margin

    def leave_batch(self) -> None:
        """Leave the batch."""
        self.slots.remove_rows(self.seats)
        self.seats, self.tolerance = [], 0.0

    def run(self, model: Model, inputs: Mapping[str, torch.Tensor]) -> Any:
        """Run the model over one new token per row, batched or not; return its outputs.

        Returns None if the batched passes failed: their tokens must be read again.
        """
        logits = self.ask(self, inputs["input_ids"])
        if logits is not None:
            return CausalLMOutputWithPast(logits=logits[:, None], past_key_values=self)  # type: ignore[arg-type]
        return None if self.seats else model(**inputs)

    def write_exact_rows(self, exact: DynamicCache) -> None:
        """Replace its rows in the batch by the keys and values of single passes."""
        self.slots.write_rows(self.seats, exact)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of cached positions, here or in the batch."""
        return self.seats[0].length if self.seats else super().get_seq_length(layer_idx)


_MARGINS: WeakKeyDictionary[LoadedModel, float | None] = WeakKeyDictionary()


def can_share_passes(loaded: LoadedModel) -> bool:
    """Return True if a model's passes may be batched, judged by its class and configuration.

    Only on a CPU in float32: the difference was not measured elsewhere, and a GPU replays CUDA graphs.
    """
    model = loaded.model
    try:
        return (
            loaded.device.type == "cpu"
            and has_full_attention(loaded)
            and getattr(model, "hf_device_map", None) is None
            and model.dtype == torch.float32
            and model.config._attn_implementation in _ATTENTION_KINDS
            and not hasattr(model, "graphs")
            and _MARGINS.get(loaded, 0.0) is not None
        )
    except Exception:  # whatever the model's code raises: its passes run alone
        return False


def measure_margin(loaded: LoadedModel) -> float | None:
    """Return the assumed difference, in nats, between logits of batched and single passes.

    It is measured on first use with a few passes of both kinds and multiplied by SAFETY_FACTOR. None if the
    model cannot be batched.
    """
    if loaded not in _MARGINS:
        try:
            found = _measure_difference(loaded)
        except Exception:  # a model's code may fail on a batch in any way; it then runs unbatched
            found = math.inf
        _MARGINS[loaded] = (
            max(found, _MIN_DIFFERENCE) * SAFETY_FACTOR
            if found <= MAX_DIFFERENCE / SAFETY_FACTOR
            else None
        )
    return _MARGINS[loaded]


def forbid_sharing(loaded: LoadedModel) -> None:
    """Never batch this model again."""
    _MARGINS[loaded] = None


def _measure_difference(loaded: LoadedModel) -> float:
    """Return the largest logit difference between batched and single passes."""
    model, drawn = loaded.model, torch.Generator().manual_seed(0)

    def ids(count: int) -> torch.Tensor:
        return torch.randint(loaded.vocab_size, (1, count), generator=drawn).to(loaded.device)

    # Two lengths, so that the mask of the shorter row is tested as well.
    texts = [(ids(length), ids(_PROBE_STEPS)[0].tolist()) for length in _PROBE_LENGTHS]
    slots, worst = Slots(model, len(texts)), 0.0
    alone, seats = [], []
    for prompt, _ in texts:
        caches = [DynamicCache(config=model.config.get_text_config(decoder=True)) for _ in range(2)]
        for cache in caches:
            model(input_ids=prompt, past_key_values=cache, use_cache=True)
        alone.append(caches[0])
        seats += slots.add_rows(caches[1])
    for step in range(_PROBE_STEPS):
        tokens = [then[step] for _, then in texts]
        shared = slots.read_tokens(dict(zip(seats, tokens, strict=True)))
        for row, (cache, token) in enumerate(zip(alone, tokens, strict=True)):
            new = torch.tensor([[token]], device=loaded.device)
            own = model(input_ids=new, past_key_values=cache, use_cache=True).logits[0, -1]
            gap = (own - shared[row]).abs().max().item()
            # NaN compares false with everything, so it is kept explicitly.
            worst = gap if gap > worst or gap != gap else worst
    return worst if worst == worst else math.inf
