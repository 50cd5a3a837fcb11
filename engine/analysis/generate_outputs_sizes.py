"""Predict the file size of transformers' outputs from their shapes, without running the model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.analysis.generate_outputs_files import OF_THE_ENCODER, described, rich_metadata
from engine.analysis.generate_outputs_flags import RichFlags, flags_of, passes_of, rows_of_trace
from engine.errors import EngineError, ModelError
from engine.models import files
from engine.models import meta_model as descriptions
from engine.models.loading import LoadedModel, as_recorded
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import uses_cache
from engine.trace.records import Trace

_BYTES = {"I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2}
"""Number type -> bytes of a number, in the order in which a safetensors file sorts tensors."""
_KINDS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
_SEEING = ("full_attention", "sliding_attention", "chunked_attention", "attention")
_ALIGNED = 8


class TooLargeError(EngineError):
    """Outputs would exceed the size limit; the message says which flags to leave out."""

    code = "too_large"


class Tensor(NamedTuple):
    """A tensor that the output file will contain."""

    field: str
    """Field of the output object."""
    name: str
    """Name in the file."""
    kind: str
    """Number type in safetensors' terms, such as ``F32``."""
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of its numbers in bytes."""
        return math.prod(self.shape) * _BYTES[self.kind]


@dataclass(frozen=True)
class _Sizes:
    """The dimensions that determine the shapes of a run's outputs.

    Attributes:
        kind: number type of the layers' tensors.
        start: number of ids before the text in every sequence.
        read: positions that the encoder reads, 0 without an encoder.
        encoder: number of encoder layers and of their heads.
        width: size of the encoder's hidden states.
        windows: attention window of each decoder layer that returns attentions; None is unlimited.
        cached: whether a pass after the first reads the new position only.
    """

    config: Any
    kind: str
    vocab: int
    start: int
    read: int
    encoder: tuple[int, int]
    width: int
    layers: int
    heads: int
    hidden: int
    windows: tuple[int | None, ...]
    cached: bool


def size_of_rich(
    trace: Trace,
    model: LoadedModel | None = None,
    flags: RichFlags | Mapping[str, Any] | None = None,
) -> int:
    """Return the size in bytes of the file with a run's outputs, without running the model.

    The size is exact for models with identical layers and an upper bound for others.

    Args:
        trace: the run; its steps are not needed.
        model: the model of the run; None looks in memory and then in the files of this machine.
        flags: the outputs, as ``RichFlags`` or as a mapping of names; None is scores only.

    Raises:
        EngineError: a flag is invalid, or the model is not on this machine.
    """
    wanted = (
        flags
        if isinstance(flags, RichFlags)
        else flags_of({"output_scores": True} if flags is None else flags)
    )
    sizes = _sizes(trace, model)
    tensors = list(_tensors(trace, sizes, wanted))
    about = described(_class(trace, sizes), rich_metadata(trace, wanted))
    return _header(tensors, about) + sum(tensor.bytes for tensor in tensors)


def most_bytes() -> int:
    """Return the size limit of this deployment in bytes."""
    return min(
        SETTINGS.max_rich_bytes,
        SETTINGS.max_public_rich_bytes if SETTINGS.public else SETTINGS.max_rich_bytes,
    )


def check_size(trace: Trace, flags: RichFlags, model: LoadedModel | None = None) -> int:
    """Return the size of a run's outputs in bytes; see ``size_of_rich``.

    Raises:
        TooLargeError: they would exceed the limit of this deployment.
    """
    size, most = size_of_rich(trace, model, flags), most_bytes()
    if size <= most:
        return size
    alone = {name: size_of_rich(trace, model, {name: True}) for name in flags.named()}
    left, out = size, []
    for name in sorted(alone, key=lambda name: alone[name], reverse=True):
        out.append(name)
        left -= alone[name]
        if left <= most:
            break
    told = f"These outputs would take {_megabytes(size)} MB, and at most {_megabytes(most)} MB are given here"
    if len(out) == len(alone):
        raise TooLargeError(f"{told}: make a shorter run.")
    raise TooLargeError(f"{told}: leave out {' and '.join(out)}.")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.3g}" if size < 1e8 else f"{size / 1e6:.0f}"


def _sizes(trace: Trace, model: LoadedModel | None) -> _Sizes:
    loaded = model or as_recorded(trace.model)
    config, cached = _known(trace, loaded)
    dtype = trace.model.dtype if loaded is None else str(loaded.model.dtype).removeprefix("torch.")
    text = config.get_text_config(decoder=True)
    apart = config.is_encoder_decoder
    feeds = trace.model.is_encoder_decoder
    encoder = config.get_text_config(encoder=True) if apart else config
    layers = int(_first(text, "num_decoder_layers", "decoder_layers", "num_hidden_layers"))
    return _Sizes(
        config=config,
        kind=_KINDS.get(dtype, "F32"),
        vocab=int(text.vocab_size),
        start=1 if feeds else len(trace.prompt_ids),
        read=(len(trace.prompt_ids) if feeds else _read(encoder)) if apart else 0,
        encoder=(
            int(_first(encoder, "encoder_layers", "num_layers", "num_hidden_layers")),
            int(_first(encoder, "encoder_attention_heads", "num_attention_heads")),
        )
        if apart
        else (0, 0),
        width=int(_first(encoder, "hidden_size")),
        layers=layers,
        heads=int(_first(text, "decoder_attention_heads", "num_attention_heads")),
        hidden=int(_first(text, "hidden_size")),
        windows=_windows(text, layers),
        cached=cached,
    )


def _known(trace: Trace, loaded: LoadedModel | None) -> tuple[Any, bool]:
    """Return the configuration of a run's model and whether the run used a cache.

    Raises:
        ModelError: the model is not on this machine.
    """
    strategy, name = STRATEGIES[trace.strategy], trace.model.id
    if loaded is not None:
        return loaded.model.config, uses_cache(strategy, loaded.capabilities)
    files.check_name(name)
    folder, known = files.local_folder(name), descriptions.described(name)
    if folder is None or known is None:
        raise ModelError(f"{name} is not on this machine, so the size of its outputs is not known.")
    return descriptions.auto_class(name, folder)[1], uses_cache(strategy, known[1])


def _first(config: Any, *names: str) -> Any:
    """Return the first of a configuration's fields that is an integer.

    Raises:
        ModelError: none of them is.
    """
    found = (getattr(config, name, None) for name in names)
    value = next((value for value in found if isinstance(value, int)), None)
    if value is None:
        raise ModelError(
            f"A model of the kind {config.model_type} does not say its {names[-1]}, so the size of its outputs"
            " is not known."
        )
    return value


def _read(encoder: Any) -> int:
    """Return the number of positions that an encoder reads for a picture or a sound."""
    sound = getattr(encoder, "max_source_positions", None)
    if isinstance(sound, int):
        return sound
    image, patch = getattr(encoder, "image_size", 0), getattr(encoder, "patch_size", 1)
    return (int(image) // int(patch)) ** 2 + 1  # the patches and a class token


def _windows(config: Any, layers: int) -> tuple[int | None, ...]:
    """Return the attention window of each layer that returns attentions; None is unlimited."""
    window = getattr(config, "sliding_window", None) or getattr(
        config, "attention_chunk_size", None
    )
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return (window if isinstance(window, int) else None,) * layers
    seeing = [kind for kind in kinds[:layers] if kind in _SEEING]
    return tuple(window if kind in _SEEING[1:3] else None for kind in seeing)


def _class(trace: Trace, sizes: _Sizes) -> str:
    beams = "Beam" if (trace.config.get("num_beams") or 1) > 1 else ""
    built = "EncoderDecoder" if sizes.config.is_encoder_decoder else "DecoderOnly"
    return f"Generate{beams}{built}Output"


def _tensors(trace: Trace, sizes: _Sizes, flags: RichFlags) -> Iterator[Tensor]:
    """Yield every tensor of the outputs."""
    rows, passes = rows_of_trace(trace), passes_of(trace)
    longest = max(len(output.token_ids) for output in trace.outputs)
    searched = (trace.config.get("num_beams") or 1) > 1
    returned = trace.config.get("num_return_sequences") or 1 if searched else rows
    yield Tensor("sequences", "sequences", "I64", (returned, sizes.start + longest))
    if searched:
        yield Tensor("beam_indices", "beam_indices", "I32", (returned, longest))
        if flags.output_scores:
            yield Tensor("sequences_scores", "sequences_scores", "F32", (returned,))
    for field in ("scores", "logits"):
        if getattr(flags, f"output_{field}"):
            for step in range(passes):
                yield Tensor(field, f"{field}.{step}", "F32", (rows, sizes.vocab))
    prefix = "decoder_" if sizes.config.is_encoder_decoder else ""
    for step in range(passes):
        seen = sizes.start + step
        new = 1 if sizes.cached and step else seen
        if flags.output_hidden_states:
            shape = (rows, new, sizes.hidden)
            yield from _layers(
                f"{prefix}hidden_states", step, sizes.kind, [shape] * (sizes.layers + 1)
            )
        if flags.output_attentions:
            yield from _attentions(sizes, prefix, step, (rows, new, seen))
    yield from _encoder(sizes, flags)


def _attentions(
    sizes: _Sizes, prefix: str, step: int, seen: tuple[int, int, int]
) -> Iterator[Tensor]:
    """Yield the attentions of a step; `seen` is (rows, positions read, positions attended to)."""
    rows, new, whole = seen
    # A sliding-window cache drops earlier positions only after the first pass.
    cut = sizes.cached and step > 0
    shapes = [
        (rows, sizes.heads, new, min(whole, window) if window is not None and cut else whole)
        for window in sizes.windows
    ]
    yield from _layers(f"{prefix}attentions", step, sizes.kind, shapes)
    if sizes.config.is_encoder_decoder:
        across = (rows, sizes.heads, new, sizes.read)
        yield from _layers("cross_attentions", step, sizes.kind, [across] * sizes.layers)


def _encoder(sizes: _Sizes, flags: RichFlags) -> Iterator[Tensor]:
    """Yield the tensors of the encoder."""
    # generate() runs the encoder once, before it repeats the batch for beams: always one row.
    layers, heads = sizes.encoder
    if layers and flags.output_hidden_states:
        shapes = [(1, sizes.read, sizes.width)] * (layers + 1)
        yield from _layers(OF_THE_ENCODER[1], None, sizes.kind, shapes)
    if layers and flags.output_attentions:
        shapes = [(1, heads, sizes.read, sizes.read)] * layers
        yield from _layers(OF_THE_ENCODER[0], None, sizes.kind, shapes)


def _layers(
    field: str, step: int | None, kind: str, shapes: list[tuple[int, ...]]
) -> Iterator[Tensor]:
    at = field if step is None else f"{field}.{step}"
    for layer, shape in enumerate(shapes):
        yield Tensor(field, f"{at}.layer.{layer}", kind, shape)


def _header(tensors: list[Tensor], about: Mapping[str, str]) -> int:
    """Return the size in bytes of the file's header: a length and JSON with all offsets."""
    listed: dict[str, Any] = {"__metadata__": dict(about)}
    order = list(_BYTES)
    at = 0
    for tensor in sorted(tensors, key=lambda t: (order.index(t.kind), t.name)):
        place = [at, at + tensor.bytes]
        listed[tensor.name] = {"dtype": tensor.kind, "shape": tensor.shape, "data_offsets": place}
        at = place[1]
    text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    # safetensors pads the JSON to a multiple of 8 bytes.
    return _ALIGNED + math.ceil(len(text.encode()) / _ALIGNED) * _ALIGNED
