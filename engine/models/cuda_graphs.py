"""CUDA graphs of one-token passes: captured once over a cache at fixed addresses, then replayed.

In a small batch the GPU waits for Python to launch some hundred kernels one by one; a graph launches
the same kernels at once. Passes are captured with torch.cuda.graph
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs). torch.compile is not used: it takes
25 to 200 s per shape, ties its graphs to one thread, and its fused kernels change the last digits.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import StaticCache

from engine.models.layer_types import has_growing_rotary_tables, layer_types
from engine.models.loading import LoadedModel
from engine.models.model_types import Model
from engine.settings import SETTINGS

BLOCK = 256
"""Cache lengths are rounded up to a multiple of this, so that runs of similar length share a cache."""
MAX_CACHES = 2
"""Most caches stored per model, with their graphs; the least recently used is dropped first."""
_WARMUP_PASSES = 3
_TIMED_PASSES = 5

Pass = Callable[[], Any]
Capture = Callable[[Pass, Callable[[], None]], Pass | None]
"""Takes a pass over fixed tensors and a function that rewinds the cache to before it.

Returns a function that repeats the pass, or None if that is not faster."""


class CudaGraphCache(StaticCache):
    """A cache at fixed addresses, and the passes captured over it.

    Only one run uses it at a time: see ``lend_cuda_graph_cache``.

    Args:
        config: the model's configuration.
        max_cache_len: capacity in positions.
        capture: captures a pass.
    """

    def __init__(self, config: Any, max_cache_len: int, capture: Capture) -> None:
        super().__init__(config=config, max_cache_len=max_cache_len)
        self.plain: list[Any] = list(self.layers)
        """The cache's layers, each a StaticLayer."""
        self.capture = capture
        self.captured: dict[Any, _CapturedPass | None] = {}

    def run(self, model: Model, inputs: Mapping[str, object]) -> Any:
        """Run the model over one new token per row, replaying a graph if possible; return its outputs.

        Args:
            model: the model of this cache.
            inputs: its keyword arguments, including this cache.
        """
        kind = tuple((name, _input_signature(value)) for name, value in inputs.items())
        if kind not in self.captured:
            self.captured[kind] = self._capture_pass(model, inputs)
        captured = self.captured[kind]
        return model(**inputs) if captured is None else captured(inputs)

    def reset(self) -> None:
        """Empty the cache."""
        # Tensors made in inference mode may be modified in place in inference mode only.
        with torch.inference_mode():
            super().reset()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Copy row ``beam_idx[i]`` to row i in place, so that addresses stay valid."""
        for layer in self.plain:
            for tensor in (layer.keys, layer.values):
                tensor.copy_(tensor.index_select(0, beam_idx.to(tensor.device)))

    def _capture_pass(self, model: Model, inputs: Mapping[str, object]) -> _CapturedPass | None:
        buffers = {name: _clone(value) for name, value in inputs.items()}
        # Layers count positions in tensors, which every repetition of the pass moves on.
        length = self.plain[0].cumulative_length.clone()

        def rewind() -> None:
            for layer in self.plain:
                layer.cumulative_length.copy_(length)

        try:
            repeat = self.capture(lambda: model(**buffers), rewind)
        except RuntimeError as error:
            # A pass that cannot be captured runs normally; only time is lost.
            logging.getLogger(__name__).warning("A pass was not captured: %s", error)
            repeat = None
        rewind()
        return None if repeat is None else _CapturedPass(buffers, repeat)


class _CapturedPass:
    """A captured pass and its fixed input tensors, which are filled before each replay."""

    def __init__(self, buffers: Mapping[str, object], repeat: Pass) -> None:
        self.buffers, self.repeat = buffers, repeat

    def __call__(self, inputs: Mapping[str, object]) -> Any:
        _fill_inputs(self.buffers, inputs)
        outputs = self.repeat()
        # The next replay overwrites the output tensors, so the caller gets copies.
        return type(outputs)(**{name: _clone(value) for name, value in outputs.items()})


def _input_signature(value: object) -> Any:
    """Return a key that is equal for inputs that can share a captured pass: shapes, dtypes, other values."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, Mapping):
        return tuple((name, _input_signature(part)) for name, part in value.items())
    return None if isinstance(value, StaticCache) else repr(value)


def _clone(value: object) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {name: _clone(part) for name, part in value.items()}
    return tuple(_clone(part) for part in value) if isinstance(value, tuple) else value


def _fill_inputs(buffer: Any, value: object) -> None:
    if isinstance(value, torch.Tensor):
        buffer.copy_(value)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            _fill_inputs(buffer[name], part)


def capture_cuda_graph(once: Pass, rewind: Callable[[], None]) -> Pass | None:
    """Capture a pass as a CUDA graph; None if its replay is not faster than the pass.

    Both are timed in turns, and the fastest of each counts.
    """
    now, side_stream = torch.cuda.current_stream(), torch.cuda.Stream()
    side_stream.wait_stream(now)
    with torch.cuda.stream(side_stream):
        # First passes choose kernels and allocate workspaces, which cannot be captured.
        for _ in range(_WARMUP_PASSES):
            rewind()
            once()
    now.wait_stream(side_stream)
    rewind()
    graph = torch.cuda.CUDAGraph()
    # thread_local: other threads may use the device during the capture.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = once()

    def repeat() -> Any:
        graph.replay()
        return outputs

    times: dict[Pass, list[float]] = {once: [], repeat: []}
    for _ in range(_TIMED_PASSES):
        for work, found in times.items():
            rewind()
            torch.cuda.synchronize()
            started = time.perf_counter()
            work()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - started)
    return repeat if min(times[repeat]) < min(times[once]) else None


_CACHES: WeakKeyDictionary[LoadedModel, OrderedDict[tuple[int, int], CudaGraphCache]] = (
    WeakKeyDictionary()
)
_STATIC_CACHE_SUPPORT: WeakKeyDictionary[LoadedModel, bool] = WeakKeyDictionary()


@contextmanager
def lend_cuda_graph_cache(
    loaded: LoadedModel, rows: int, length: int
) -> Iterator[CudaGraphCache | None]:
    """Lend an empty cache whose passes are captured; None if the model or the settings do not allow it.

    A cache that is lent is in no list, so another run cannot get it while this one is paused.

    Args:
        loaded: the model; the run must hold its lock.
        rows: batch size.
        length: most positions of prompt and text.
    """
    if not SETTINGS.cuda_graphs or loaded.device.type != "cuda" or not can_use_cuda_graphs(loaded):
        yield None
        return
    kept = _CACHES.setdefault(loaded, OrderedDict())
    size = (rows, -(-length // BLOCK) * BLOCK)
    # Taken out while it is lent, so that a second run gets another one.
    cache = kept.pop(size, None)
    if cache is None:
        cache = CudaGraphCache(loaded.model.config, size[1], capture_cuda_graph)
    cache.reset()
    try:
        yield cache
    finally:
        kept[size] = cache
        while len(kept) > MAX_CACHES:
            kept.popitem(last=False)


def can_use_cuda_graphs(loaded: LoadedModel) -> bool:
    """Return True if one-token passes of the model launch the same kernels at the same addresses each time.

    This holds for decoders on one device whose class declares it, with full attention in all layers,
    and that work with a cache of fixed size.
    """
    if not has_full_attention(loaded) or not getattr(loaded.model, "_can_compile_fullgraph", False):
        return False
    if loaded not in _STATIC_CACHE_SUPPORT:
        _STATIC_CACHE_SUPPORT[loaded] = _can_use_static_cache(loaded.model)
    return _STATIC_CACHE_SUPPORT[loaded]


def _can_use_static_cache(model: Model) -> bool:
    """Return True if the model can read two tokens into a cache of fixed size."""
    # The class's declaration is not enough: Falcon with ALiBi fails in its first pass.
    cache = StaticCache(config=model.config, max_cache_len=BLOCK)
    try:
        with torch.inference_mode():
            model(
                input_ids=torch.zeros(1, 2, dtype=torch.long, device=model.device),
                past_key_values=cache,
            )
    except Exception:  # a model's code may fail in any way; the model then runs without graphs
        return False
    return True


def has_full_attention(loaded: LoadedModel) -> bool:
    """Return True for a decoder on one device whose layers all store keys and values of all positions, nothing else."""
    model = loaded.model
    one_place = len(set((getattr(model, "hf_device_map", None) or {"": 0}).values())) == 1
    if not one_place or getattr(model, "hf_quantizer", None) is not None:
        return False
    can = loaded.capabilities
    if can.cache_name != "past_key_values" or can.names_encoder_depth or loaded.is_encoder_decoder:
        return False
    # Runs of different lengths would change each other's rotary tables.
    if has_growing_rotary_tables(model.config):
        return False
    return {*layer_types(model.config)} == {"full_attention"}
