"""One pass over the newest token of several texts of different lengths, each with keys and values of its own.

A row keeps its keys from position 0 on, in a buffer with room for the longest; what lies behind its end is
masked. So nothing is copied from step to step, and rows come and go between two passes. vLLM and gpt-fast keep
rows apart in the same way: by position and mask. A batched product may differ in its last digits from that of
one row; by how much it does here is measured once for every model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from engine.models.graphed import attends_to_everything
from engine.models.loading import LoadedModel

BLOCK = 256
"""Positions of a buffer are a multiple of this."""
WIDEST = 1e-3
"""A model whose logits differ by more between a shared pass and one alone shares none."""
SAFETY = 16
"""How many times the difference that was measured is reckoned with."""
_LEAST = 2e-6
"""Nats; the last digit of a float32 logit of usual size."""
_PROBES = (5, 12)
_PROBED_STEPS = 4
_KINDS = ("sdpa", "eager")


class Seat:
    """The place of one row in a batch.

    Attributes:
        row: which it is now.
        length: positions that it has read.
    """

    def __init__(self, row: int, length: int) -> None:
        self.row, self.length = row, length


class _SlotLayer(CacheLayerMixin):
    """Keys and values of one layer for all rows; see ``Slots``."""

    def __init__(self, slots: Slots, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.slots = slots
        self.keys, self.values = (
            _room(like, slots.most, slots.positions) for like in (keys, values)
        )
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: it was made with its tensors."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one position of each row at its own end; return what all rows may attend to."""
        del args, kwargs
        slots, held = self.slots, []
        for kept, new in ((self.keys, key_states), (self.values, value_states)):
            assert kept is not None
            kept[slots.rows, :, slots.ends] = new[:, :, 0]
            held.append(kept[: len(new), :, : slots.longest])
        return held[0], held[1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many positions there are, and that the first is 0."""
        del query_length
        return self.slots.longest, 0

    def get_seq_length(self) -> int:
        """Return the positions before the ones that a pass reads."""
        return self.slots.longest - 1

    def get_max_length(self) -> int:
        """Return how many positions there is room for."""
        return self.slots.positions

    def grow(self, positions: int) -> None:
        """Make room for more positions."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = _room(old, self.slots.most, positions)
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)


def _room(like: torch.Tensor, rows: int, positions: int) -> torch.Tensor:
    """Return zeros (rows, heads, positions, width) of the kind of a (…, heads, …, width) tensor."""
    return like.new_zeros(rows, like.shape[1], positions, like.shape[3])


def _layers(cache: Cache) -> list[Any]:
    """Return a cache's layers, each with its keys and values."""
    return list(cache.layers)


class Slots:
    """The rows of one model whose passes are made together; one thread uses it.

    Args:
        model: a decoder that ``can_share``.
        most: rows that it has room for.
    """

    def __init__(self, model: Any, most: int) -> None:
        self.model, self.most = model, most
        self.positions = self.longest = 0
        self.seats: list[Seat] = []
        self._cache: Cache | None = None
        self.rows = self.ends = torch.zeros(0, dtype=torch.long)

    @property
    def free(self) -> int:
        """Rows that are not taken."""
        return self.most - len(self.seats)

    def seat(self, cache: DynamicCache) -> list[Seat]:
        """Take in all rows of a cache, at the end; return their seats."""
        length, count = cache.get_seq_length(), _layers(cache)[0].keys.shape[0]
        self._make_room(length + 1, cache)
        seats = [Seat(len(self.seats) + i, length) for i in range(count)]
        self.seats += seats
        self.put(seats, cache)
        return seats

    def put(self, seats: list[Seat], cache: DynamicCache) -> None:
        """Let seats hold what the rows of a cache hold."""
        length = cache.get_seq_length()
        for own, layer in zip(self._layers, _layers(cache), strict=True):
            for kept, new in ((own.keys, layer.keys), (own.values, layer.values)):
                for i, seat in enumerate(seats):
                    kept[seat.row, :, :length] = new[i]
        for seat in seats:
            seat.length = length

    def leave(self, seats: list[Seat]) -> None:
        """Free seats; the last rows move up into their places."""
        for seat in seats:
            last = self.seats.pop()
            if last is seat:
                continue
            for layer in self._layers:
                for kept in (layer.keys, layer.values):
                    kept[seat.row, :, : last.length] = kept[last.row, :, : last.length]
            self.seats[seat.row] = last
            last.row = seat.row

    def read(self, tokens: dict[Seat, int]) -> torch.Tensor:
        """Read one more token of some rows, in one pass over all.

        Args:
            tokens: seat -> id; a row that is left out stays as it is.

        Returns:
            (rows, vocab) logits of the model's own dtype; those of a row that was left out mean nothing.
        """
        self._make_room(max(seat.length for seat in self.seats) + 1)
        device = self.model.device
        ends = torch.tensor([seat.length for seat in self.seats])
        self.longest = int(ends.max()) + 1
        ids = torch.tensor([[tokens.get(seat, 0)] for seat in self.seats], device=device)
        behind = torch.arange(self.longest)[None] > ends[:, None]
        masked = torch.finfo(self.model.dtype).min
        mask = torch.zeros(behind.shape, dtype=self.model.dtype).masked_fill_(behind, masked)
        self.ends, self.rows = ends.to(device), torch.arange(len(self.seats), device=device)
        outputs = self.model(
            input_ids=ids,
            attention_mask=mask[:, None, None].to(device),
            position_ids=self.ends[:, None],
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
        )
        for seat in tokens:
            seat.length += 1
        return outputs.logits[:, -1]

    @property
    def _layers(self) -> list[Any]:
        assert self._cache is not None
        return self._cache.layers

    def _make_room(self, length: int, like: DynamicCache | None = None) -> None:
        """See to it that there is room for so many positions of each row."""
        if length > self.positions:
            self.positions = math.ceil(length / BLOCK) * BLOCK
            for layer in self._layers if self._cache is not None else ():
                layer.grow(self.positions)
        if self._cache is None and like is not None:
            layers: list[Any] = [_SlotLayer(self, of.keys, of.values) for of in _layers(like)]
            self._cache = Cache(layers=layers)


Ask = Callable[["SharedCache", torch.Tensor], "torch.Tensor | None"]
"""Given a run's cache and its (rows, 1) newest ids: their (rows, vocab) logits, None for a pass alone."""


class SharedCache(DynamicCache):
    """A run's own cache, which asks for every pass over one token: others may go along.

    Args:
        slots: where its rows are while others go along.
        ask: makes the pass with others, or says that it is to be made alone.

    Attributes:
        seats: of its rows while others go along, empty before.
        apart: whether its run shares no pass, for what it does with the scores.
        tolerance: nats by which the logits of the last pass may differ from those of one alone.
    """

    def __init__(self, slots: Slots, ask: Ask) -> None:
        super().__init__(config=slots.model.config.get_text_config(decoder=True))
        self.slots, self.ask = slots, ask
        self.seats: list[Seat] = []
        self.apart = False
        self.tolerance = 0.0

    def sit(self, margin: float) -> None:
        """Go along from the next pass on, where there is room.

        Args:
            margin: what ``margin_of`` returned.
        """
        if self.slots.free >= _layers(self)[0].keys.shape[0]:
            self.seats, self.tolerance = self.slots.seat(self), margin

    def leave(self) -> None:
        """Free its seats."""
        self.slots.leave(self.seats)
        self.seats, self.tolerance = [], 0.0

    def run(self, model: Any, inputs: dict[str, Any]) -> Any:
        """Run the model over one new token of each row; return its outputs.

        None where shared passes came to nothing: what was read in them is to be read again.
        """
        logits = self.ask(self, inputs["input_ids"])
        if logits is not None:
            return CausalLMOutputWithPast(logits=logits[:, None], past_key_values=self)  # pyright: ignore[reportArgumentType]
        return None if self.seats else model(**inputs)

    def correct(self, exact: DynamicCache) -> None:
        """Take over keys and values of passes alone."""
        self.slots.put(self.seats, exact)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the positions that it holds, here or in the batch."""
        return self.seats[0].length if self.seats else super().get_seq_length(layer_idx)


_MEASURED: WeakKeyDictionary[LoadedModel, float | None] = WeakKeyDictionary()


def can_share(loaded: LoadedModel) -> bool:
    """Return whether passes of a model may be shared, as far as its class and its configuration say.

    On a processor, that is: a GPU repeats the passes of a run from graphs, see graphed.py.
    """
    model = loaded.model
    return (
        loaded.device.type == "cpu"
        and attends_to_everything(loaded)
        and getattr(model, "hf_device_map", None) is None
        and model.dtype == torch.float32
        and model.config._attn_implementation in _KINDS
        and not hasattr(model, "graphs")
        and _MEASURED.get(loaded, 0.0) is not None
    )


def margin_of(loaded: LoadedModel) -> float | None:
    """Return by how many nats logits of shared passes are reckoned to differ from those of passes alone.

    It is measured the first time, by some passes of both kinds, and is SAFETY times what was found; None
    where the model cannot share.
    """
    if loaded not in _MEASURED:
        try:
            found = _difference(loaded)
        except Exception:  # whatever a model's code does with rows side by side, alone it runs
            found = math.inf
        _MEASURED[loaded] = max(found, _LEAST) * SAFETY if found <= WIDEST / SAFETY else None
    return _MEASURED[loaded]


def forbid(loaded: LoadedModel) -> None:
    """Let a model share no pass from now on."""
    _MEASURED[loaded] = None


def _difference(loaded: LoadedModel) -> float:
    """Return the largest difference of a logit between shared passes and passes alone."""
    model, drawn = loaded.model, torch.Generator().manual_seed(0)

    def ids(count: int) -> torch.Tensor:
        return torch.randint(loaded.vocab_size, (1, count), generator=drawn).to(loaded.device)

    texts = [(ids(length), ids(_PROBED_STEPS)[0].tolist()) for length in _PROBES]
    slots, worst = Slots(model, len(texts)), 0.0
    alone, seats = [], []
    for prompt, _ in texts:
        caches = [DynamicCache(config=model.config.get_text_config(decoder=True)) for _ in range(2)]
        for cache in caches:
            model(input_ids=prompt, past_key_values=cache, use_cache=True)
        alone.append(caches[0])
        seats += slots.seat(caches[1])
    for step in range(_PROBED_STEPS):
        tokens = [then[step] for _, then in texts]
        shared = slots.read(dict(zip(seats, tokens, strict=True)))
        for row, (cache, token) in enumerate(zip(alone, tokens, strict=True)):
            new = torch.tensor([[token]], device=loaded.device)
            own = model(input_ids=new, past_key_values=cache, use_cache=True).logits[0, -1]
            gap = (own - shared[row]).abs().max().item()
            worst = gap if gap > worst or gap != gap else worst
    return worst if worst == worst else math.inf
