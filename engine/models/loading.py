"""Load models with checks, and cache the loaded ones within a memory budget.

All loads in the process share one lock: two concurrent ``from_pretrained`` calls can leave wrong
weights without an error. Weights are checked after every load.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch

from engine.declare.weights import TORCH, WeightsParams
from engine.errors import ModelError
from engine.model_code import PROPERTIES, ModelCall
from engine.models import files, hashes, memory_budget, readers, sizes
from engine.models import weights as holding
from engine.models.capabilities import (
    Capabilities,
    attention_implementation,
    capabilities_of,
    layer_count,
    position_count,
    writes_tokens,
)
from engine.models.devices import check_device, default_device
from engine.models.load_checks import check_loaded_model, load_error
from engine.models.memory_budget import trim_heap
from engine.models.meta_model import CONSTRUCTION_LOCK, build_meta_model
from engine.models.model_resolver import resolve_model
from engine.models.model_types import Model, Tokenizer
from engine.models.model_views import special_ids_config
from engine.models.module_state import InitialState
from engine.models.openvino import model as on_openvino
from engine.models.openvino.graph_loader import load_graph_model
from engine.models.openvino.graph_store import ensure_graph
from engine.models.text import Pieces
from engine.models.tokenizers import load_tokenizer
from engine.one_shot_thread import run_in_thread
from engine.settings import SETTINGS
from engine.sources.source import Embedded, Source
from engine.trace.records import HeldWeights, ModelInfo

_LOAD_LOCK = threading.Lock()
_CACHE_LOCK = threading.Lock()
"""Never held during a load, so that models in memory stay available meanwhile."""
_ORDER = itertools.count()


@dataclass(eq=False)
class LoadedModel:
    """A model in memory, with its tokenizer if it has one.

    Attributes:
        model: a transformers generation model; never modified by a run.
        tokenizer: its tokenizer, or None: then prompts are ids and pieces are ids.
        name: its name in traces.
        weights: dtype, quantisation and placement of its weights; None for a model given as an object.
        lock: held by the one run that uses the model's forward passes.
        processor: prepares pictures or sounds: a processor, image processor or feature extractor of
            transformers; None for a model that reads text only.
        source: where it was loaded from; None for a model given as an object.
        reader: turns pictures or sounds into its inputs; None if it takes none.
        forget_passes: makes its modules forget what earlier passes left in them.
    """

    model: Model
    tokenizer: Tokenizer | None = None
    name: str = "in-memory"
    revision: str | None = None
    load_s: float = 0.0
    weights: WeightsParams | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    order: int = field(default_factory=lambda: next(_ORDER), repr=False)
    processor: Any = field(default=None, repr=False)
    source: Source | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.pieces = Pieces(self.tokenizer)
        self._whole, self._family = self.model, readers.family_of(self.model)
        self.forget_passes = InitialState(self._whole).restore
        self.reader = None
        if self.processor is not None:
            found = readers.to_processors(self.processor)
            self.reader = readers.build_reader(self.name, self.model, found)
        # In BLIP only the text decoder generates.
        self.model = readers.decoding_part(self.model)

    @property
    def device(self) -> torch.device:
        """Device that inputs must be on."""
        return holding.input_device(self.model)

    @property
    def vocab_size(self) -> int:
        """Size of the output distribution."""
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    @property
    def layers(self) -> int:
        """Number of decoder layers."""
        return layer_count(self.model)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the prompt feeds an encoder. False if the encoder reads a picture or a sound."""
        apart = self._family is not None and self._family.encodes
        return bool(self.model.config.is_encoder_decoder) and not apart

    @property
    def context_length(self) -> int | None:
        """Context length in positions; None for relative positions (T5)."""
        return None if self.is_encoder_decoder else position_count(self.model)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The model's end-of-sequence ids; empty if none are declared."""
        eos = self.model.generation_config.eos_token_id
        if eos is None:
            eos = getattr(self.model.config, "eos_token_id", None)
        if eos is None:
            return ()
        return tuple(eos) if isinstance(eos, (list, tuple)) else (int(eos),)

    @cached_property
    def capabilities(self) -> Capabilities:
        """What a strategy may require of the model.

        Raises:
            ModelError: it is not a generation model.
        """
        if not writes_tokens(type(self.model)):
            raise ModelError(
                "{name} is a {kind}, which does not write text token by token.",
                name=self.name,
                kind=type(self.model).__name__,
            )
        return capabilities_of(self._whole)

    def info(self) -> ModelInfo:
        """Return the model's record for a trace."""
        with ModelCall(PROPERTIES, self.name):
            return ModelInfo(
                id=self.name,
                revision=self.revision,
                dtype=str(self.model.dtype).removeprefix("torch."),
                device=self.device.type,
                vocab_size=self.vocab_size,
                layers=self.layers,
                is_encoder_decoder=self.is_encoder_decoder,
                weights=self._held_weights,
            )

    @cached_property
    def _held_weights(self) -> HeldWeights | None:
        return None if self.weights is None else holding.to_held_weights(self.weights, self.model)

    def memory_bytes(self) -> int:
        """Bytes of all parameters in memory, or of the OpenVINO graphs; parameters offloaded to disk do not count."""
        if isinstance(self.model, on_openvino.GraphModelMixin):
            return int(self.model.graphs.memory_bytes)
        return self._parameter_bytes

    @cached_property
    def _parameter_bytes(self) -> int:
        # Every run asks this of every model in memory when it ends.
        there = (p for p in self._whole.parameters() if not p.is_meta)
        return sum(p.numel() * p.element_size() for p in there)


@dataclass
class _CacheEntry:
    loaded: LoadedModel
    pins: int = 0


CacheKey = tuple[str, str, WeightsParams]
"""Name, device, and settings of its weights."""
_CACHE: OrderedDict[CacheKey, _CacheEntry] = OrderedDict()


def load(
    name: str,
    device: str | None = None,
    dtype: str | None = None,
    quantization: str | None = None,
    *,
    weights: WeightsParams | None = None,
) -> LoadedModel:
    """Return a model by catalogue name, folder or hub id; each combination of settings is loaded at most once.

    Args:
        name: a name of CATALOGUE; a folder, a GGUF file or a LoRA adapter, which may give its base as
            ``ADAPTER on BASE`` (none of these on a public Space); or a hub id ``owner/name`` or
            ``owner/name@revision`` with a branch, tag or commit.
        device: torch device; the default is accelerate's choice.
        dtype: float32, bfloat16 or float16; the default is float32 on CPU, bfloat16 elsewhere.
        quantization: 4bit or 8bit (bitsandbytes), None for none.
        weights: all weight settings, instead of dtype and quantization.

    Raises:
        BusyError: too many downloads are running.
        ModelError: it cannot be found or loaded, or its files do not fit together.
    """
    weights_params = weights or holding.to_weights_params(dtype, quantization)
    return load_source(Source.parse(name), device, weights_params)


def load_source(
    source: Source, device: str | None = None, weights: WeightsParams | None = None
) -> LoadedModel:
    """Return a model by where it comes from, as ``load`` does by its name."""
    key = _cache_key(source.name, device or source.device, weights)
    there = _get_cached(source, key)
    if there is not None:
        return there
    # Fetch and convert before taking the lock, so that other loads do not wait for it.
    folder, revision = resolve_model(source)
    if key[2].backend != TORCH:
        ensure_graph(source.name, folder, key[2].backend)
    with _LOAD_LOCK:
        # Another thread may have loaded it meanwhile.
        there = _get_cached(source, key)
        if there is None:
            # In a thread that ends: OpenMP keeps workers for every thread that ever computed.
            there = run_in_thread(partial(_load_model, source, key, folder, revision))
            with _CACHE_LOCK:
                _CACHE[key] = _CacheEntry(there)
            _evict_models(source.name, keep=key)
        return there


def get_cached_model(source: Source, weights: WeightsParams | None = None) -> LoadedModel | None:
    """Return the model of ``load_source(source, weights=weights)`` if it is in memory, else None."""
    return _get_cached(source, _cache_key(source.name, source.device, weights))


def list_loaded_models() -> list[str]:
    """List the names of all models in memory, most recently used last."""
    with _CACHE_LOCK:
        return [name for name, *_ in _CACHE]


def _cache_key(name: str, device: str | None, weights: WeightsParams | None) -> CacheKey:
    device, weights = device or default_device(), weights or holding.DEFAULT
    check_device(device)
    holding.check_devices(weights)
    return name, device, holding.with_default_dtype(weights, device)


def _get_cached(source: Source, key: CacheKey) -> LoadedModel | None:
    with _CACHE_LOCK:
        entry = _CACHE.get(key)
        if entry is None or source.is_stale(entry.loaded.revision):
            return None
        _CACHE.move_to_end(key)
        return entry.loaded


def find_recorded_model(info: ModelInfo) -> LoadedModel | None:
    """Return the model of a trace if it is in memory with the same weight settings, else None.

    For a trace of unquantised weights from another kind of device, this machine's default is accepted.

    Args:
        info: the model record of a trace.
    """
    found = [(key, entry.loaded) for key, entry in list(_CACHE.items())][::-1]
    found = [(k, m) for k, m in found if (m.name, m.revision) == (info.id, info.revision)]
    for _, loaded in found:
        own = loaded.info()
        if (own.dtype, own.weights) == (info.dtype, info.weights):
            return loaded
    if not found or info.weights is not None:
        return None
    default = _cache_key(info.id, None, None)
    return next((m for k, m in found if k == default and m.device.type != info.device), None)


def find_loaded_model(name: str, revision: str | None = None) -> LoadedModel | None:
    """Return a model that is loaded already, else None, whatever its weight settings.

    Args:
        name: model name, as in ``load``.
        revision: revision of its weights.
    """
    found = [e.loaded for e in list(_CACHE.values()) if e.loaded.name == name]
    return next((loaded for loaded in found[::-1] if loaded.revision == revision), None)


@contextmanager
def pin_models(*models: LoadedModel | None) -> Iterator[None]:
    """Protect models from eviction while a run uses them."""
    with _CACHE_LOCK:
        entries = [e for e in _CACHE.values() if any(e.loaded is model for model in models)]
        for entry in entries:
            entry.pins += 1
    try:
        yield
    finally:
        with _CACHE_LOCK:
            for entry in entries:
                entry.pins -= 1
            newest = next(reversed(_CACHE), ("",))[0]
        # A model that was over the budget while in use may be evicted now.
        _evict_models(newest)


def loaded_count_and_bytes() -> tuple[int, int]:
    """Return the number of models in memory and their total bytes."""
    with _CACHE_LOCK:
        return len(_CACHE), sum(entry.loaded.memory_bytes() for entry in _CACHE.values())


def free_budget_bytes() -> float:
    """Return the bytes of the models' budget that no model uses; negative if over budget."""
    return SETTINGS.max_model_memory_gb * 1e9 - loaded_count_and_bytes()[1]


def _evict_models(room_for: str, keep: CacheKey | None = None, new_bytes: float = 0.0) -> None:
    """Evict the least recently used idle models until the budget holds.

    Args:
        room_for: name of the model that needs the space.
        keep: key of a model that must stay.
        new_bytes: bytes of a model about to be loaded, 0 for none.
    """
    memory_budget.recall_loans(free_budget_bytes() - new_bytes)
    budget = SETTINGS.max_model_memory_gb * 1e9 - new_bytes
    most = SETTINGS.max_loaded_models - bool(new_bytes)
    with _CACHE_LOCK:
        for key in list(_CACHE):
            used = sum(entry.loaded.memory_bytes() for entry in _CACHE.values())
            if len(_CACHE) <= most and used <= budget:
                return
            if key != keep and _CACHE[key].pins == 0:
                del _CACHE[key]
                memory_budget.record_eviction(key[0], "memory", room_for)


def _load_model(source: Source, key: CacheKey, folder: str, revision: str | None) -> LoadedModel:
    holding.silence_libraries()
    started = time.perf_counter()
    name, device, weights = key
    to_loaded = partial(LoadedModel, name=name, revision=revision, weights=weights, source=source)
    if isinstance(source, Embedded):
        hashes.check_embedded_files(name)
    config = files.check_folder(folder)
    auto, described = build_meta_model(name, folder, config)
    needed = sizes.estimate_bytes(described, sizes.count_values(name, folder), weights)
    sizes.check_memory(name, needed, weights)
    # Before the load, or old and new model would be in memory at once. The heap is trimmed here
    # because an evicted model may have been freed only when its run ended.
    _evict_models(name, new_bytes=needed)
    trim_heap()
    if weights.backend != TORCH:
        model, tokenizer = load_graph_model(name, folder, weights.backend, described)
        return to_loaded(model, tokenizer, load_s=round(time.perf_counter() - started, 3))
    options, offloaded = holding.loading_options(weights)
    try:
        with CONSTRUCTION_LOCK:
            model, report = auto.from_pretrained(
                folder,
                output_loading_info=True,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation=attention_implementation(described),
                **options,
            )
        holding.remove_when_freed(model, offloaded)
        tokenizer = load_tokenizer(folder)
    except Exception as error:
        if offloaded is not None:
            offloaded.remove()
        raise load_error(error, name, folder, weights) from None
    check_loaded_model(name, model, report, tokenizer)
    holding.check_4bit_blocks(name, model)
    if weights.quantization is None and weights.device_map is None:
        model.to(device)
    seconds = round(time.perf_counter() - started, 3)
    processor = readers.load_processors(name, folder) if readers.family_of(model) else None
    loaded = to_loaded(model.eval(), tokenizer, load_s=seconds, processor=processor)
    # A repository's sampling defaults are never inherited silently: settings come from the request.
    # A speech model's reader has copied its rules before this.
    loaded.model.generation_config = special_ids_config(loaded.model)
    return loaded
