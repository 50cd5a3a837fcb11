"""Passes over one new token as CUDA graphs: captured once over a cache at fixed addresses, then replayed.

A pass of a small batch keeps a GPU waiting for Python, which starts some hundred kernels one after the other; a graph
starts them at once, and they are the same kernels. Captured by torch.cuda.graph as its documentation asks
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs); why not by torch.compile, docs/decisions.md says.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import StaticCache

from engine.models.layer_types import layer_types
from engine.models.loading import LoadedModel
from engine.settings import SETTINGS

BLOCK = 256
"""Positions of a cache are a multiple of this, so that runs of about one length share it."""
KEPT = 2
"""Caches kept for a model, with their graphs; the one used longest ago goes first."""
_WARM = 3
_TIMED = 5

Pass = Callable[[], Any]
Capture = Callable[[Pass, Callable[[], None]], Pass | None]
"""Given a pass over fixed tensors, and what puts the cache back before it: what repeats the pass, or None
where that would not be quicker."""


class GraphedCache(StaticCache):
    """Keys and values that stay where they are, and the passes that were captured over them.

    One run uses it at a time: the one that holds the model's lock.

    Args:
        config: of the model.
        max_cache_len: positions it has room for.
        capture: makes a pass repeatable.
    """

    def __init__(self, config: Any, max_cache_len: int, capture: Capture) -> None:
        super().__init__(config=config, max_cache_len=max_cache_len)
        self.plain: list[Any] = list(self.layers)
        """Its layers, each a StaticLayer."""
        self.capture = capture
        self.captured: dict[Any, _Captured | None] = {}

    def run(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        """Run a model over one new token of each row; return its outputs.

        Args:
            model: the one whose cache this is.
            inputs: its keyword arguments, this cache among them.
        """
        kind = tuple((name, _kind(value)) for name, value in inputs.items())
        if kind not in self.captured:
            self.captured[kind] = self._captured(model, inputs)
        captured = self.captured[kind]
        return model(**inputs) if captured is None else captured(inputs)

    def reset(self) -> None:
        """Forget all; what was made where nothing can be differentiated is changed there alone."""
        with torch.inference_mode():
            super().reset()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Let row i be what row ``beam_idx[i]`` was, at the addresses there are."""
        for layer in self.plain:
            for held in (layer.keys, layer.values):
                held.copy_(held.index_select(0, beam_idx.to(held.device)))

    def _captured(self, model: Any, inputs: Mapping[str, Any]) -> _Captured | None:
        held = {name: _copied(value) for name, value in inputs.items()}
        length = self.plain[0].cumulative_length.clone()

        def rewind() -> None:
            for layer in self.plain:
                layer.cumulative_length.copy_(length)

        try:
            repeat = self.capture(lambda: model(**held), rewind)
        except RuntimeError as error:
            # What cannot be captured runs as it is; nothing but time is lost.
            logging.getLogger(__name__).warning("A pass was not captured: %s", error)
            repeat = None
        rewind()
        return None if repeat is None else _Captured(held, repeat)


class _Captured:
    """A pass over tensors of its own, which are filled before it is repeated."""

    def __init__(self, held: Mapping[str, Any], repeat: Pass) -> None:
        self.held, self.repeat = held, repeat

    def __call__(self, inputs: Mapping[str, Any]) -> Any:
        _fill(self.held, inputs)
        outputs = self.repeat()
        # The next pass writes into the same tensors, and what came of this one may be wanted then.
        return type(outputs)(**{name: _copied(value) for name, value in outputs.items()})


def _kind(value: Any) -> Any:
    """Return what two inputs have in common that one captured pass serves."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, Mapping):
        return tuple((name, _kind(part)) for name, part in value.items())
    return None if isinstance(value, StaticCache) else repr(value)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    return tuple(_copied(part) for part in value) if isinstance(value, tuple) else value


def _fill(held: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        held.copy_(value)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            _fill(held[name], part)


def cuda_graph(once: Pass, rewind: Callable[[], None]) -> Pass | None:
    """Capture a pass; None where its graph is no quicker than the pass itself, by a few of each in turns."""
    now, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(now)
    with torch.cuda.stream(aside):
        for _ in range(_WARM):
            rewind()
            once()
    now.wait_stream(aside)
    rewind()
    graph = torch.cuda.CUDAGraph()
    # Other threads may use the device meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = once()

    def repeat() -> Any:
        graph.replay()
        return outputs

    times: dict[Pass, list[float]] = {once: [], repeat: []}
    for _ in range(_TIMED):
        for work, found in times.items():
            rewind()
            torch.cuda.synchronize()
            started = time.perf_counter()
            work()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - started)
    return repeat if min(times[repeat]) < min(times[once]) else None


_CACHES: WeakKeyDictionary[LoadedModel, OrderedDict[tuple[int, int], GraphedCache]] = (
    WeakKeyDictionary()
)
_READS_STATIC: WeakKeyDictionary[LoadedModel, bool] = WeakKeyDictionary()


def graphed_cache(loaded: LoadedModel, rows: int, length: int) -> GraphedCache | None:
    """Return an empty cache over which passes are captured, None where that cannot be or is not wanted.

    Args:
        loaded: the model, whose lock the run holds.
        rows: of the batch.
        length: positions of prompt and text at most.
    """
    if not SETTINGS.cuda_graphs or loaded.device.type != "cuda" or not can_be_graphed(loaded):
        return None
    kept = _CACHES.setdefault(loaded, OrderedDict())
    size = (rows, -(-length // BLOCK) * BLOCK)
    if size not in kept:
        kept[size] = GraphedCache(loaded.model.config, size[1], cuda_graph)
        while len(kept) > KEPT:
            kept.popitem(last=False)
    kept.move_to_end(size)
    kept[size].reset()
    return kept[size]


def can_be_graphed(loaded: LoadedModel) -> bool:
    """Return whether a pass of a model over one token is the same kernels at the same addresses each time.

    That is a decoder on one device whose class says so, all of whose layers attend to everything, and that can read
    a cache of fixed size.
    """
    if not attends_to_everything(loaded) or not getattr(
        loaded.model, "_can_compile_fullgraph", False
    ):
        return False
    if loaded not in _READS_STATIC:
        _READS_STATIC[loaded] = _reads_static_cache(loaded.model)
    return _READS_STATIC[loaded]


def _reads_static_cache(model: Any) -> bool:
    """Return whether a model can read two tokens into a cache of fixed size."""
    # Classes that say so may not with every configuration: Falcon with ALiBi fails in its first pass.
    cache = StaticCache(config=model.config, max_cache_len=BLOCK)
    try:
        with torch.inference_mode():
            model(
                input_ids=torch.zeros(1, 2, dtype=torch.long, device=model.device),
                past_key_values=cache,
            )
    except Exception:  # whatever a model's code does with such a cache, it runs without graphs
        return False
    return True


def attends_to_everything(loaded: LoadedModel) -> bool:
    """Return whether every layer of a decoder on one device keeps keys and values of all positions, and no more."""
    model = loaded.model
    one_place = len(set((getattr(model, "hf_device_map", None) or {"": 0}).values())) == 1
    if not one_place or getattr(model, "hf_quantizer", None) is not None:
        return False
    if loaded.capabilities.cache_name != "past_key_values" or loaded.is_encoder_decoder:
        return False
    return {*layer_types(model.config)} == {"full_attention"}
