"""Predict the file size of transformers' outputs from their shapes, without running the model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.analysis.generate_outputs_files import ENCODER_FIELDS, file_metadata, output_metadata
from engine.analysis.generate_outputs_flags import (
    OutputFlags,
    count_passes,
    count_rows,
    parse_flags,
)
from engine.errors import EngineError, ModelError
from engine.messages import join_words
from engine.models import meta_model as descriptions
from engine.models.loading import LoadedModel, find_recorded_model
from engine.settings import SETTINGS
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import uses_cache
from engine.trace.records import Trace

_BYTES_PER_NUMBER = {"I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2}
"""Number type -> bytes of a number, in the order in which a safetensors file sorts tensors."""
_SAFETENSORS_KINDS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
_ATTENTION_LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "attention")
_ALIGNMENT = 8


class TooLargeError(EngineError):
    """Outputs would exceed the size limit; the message says which flags to leave out."""

    code = "too_large"


class PlannedTensor(NamedTuple):
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
        return math.prod(self.shape) * _BYTES_PER_NUMBER[self.kind]


@dataclass(frozen=True)
class _Dimensions:
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


def output_file_size(
    trace: Trace,
    model: LoadedModel | None = None,
    flags: OutputFlags | Mapping[str, Any] | None = None,
) -> int:
    """Return the size in bytes of the file with a run's outputs, without running the model.

    The size is exact for models with identical layers and an upper bound for others.

    Args:
        trace: the run; its steps are not needed.
        model: the model of the run; None looks in memory and then in the files of this machine.
        flags: the outputs, as ``OutputFlags`` or as a mapping of names; None is scores only.

    Raises:
        EngineError: a flag is invalid, or the model is not on this machine.
    """
    wanted = (
        flags
        if isinstance(flags, OutputFlags)
        else parse_flags({"output_scores": True} if flags is None else flags)
    )
    sizes = _output_dimensions(trace, model)
    tensors = list(_planned_tensors(trace, sizes, wanted))
    about = file_metadata(_output_class(trace, sizes), output_metadata(trace, wanted))
    return _header_size(tensors, about) + sum(tensor.bytes for tensor in tensors)


def max_output_bytes() -> int:
    """Return the size limit of this deployment in bytes."""
    return min(
        SETTINGS.max_rich_bytes,
        SETTINGS.max_public_rich_bytes if SETTINGS.public else SETTINGS.max_rich_bytes,
    )


def check_size(trace: Trace, flags: OutputFlags, model: LoadedModel | None = None) -> int:
    """Return the size of a run's outputs in bytes; see ``output_file_size``.

    Raises:
        TooLargeError: they would exceed the limit of this deployment.
    """
    size, most = output_file_size(trace, model, flags), max_output_bytes()
    if size <= most:
        return size
    alone = {name: output_file_size(trace, model, {name: True}) for name in flags.enabled_names()}
    left, out = size, []
    for name in sorted(alone, key=lambda name: alone[name], reverse=True):
        out.append(name)
        left -= alone[name]
        if left <= most:
            break
    megabytes = {"size": _format_megabytes(size), "most": _format_megabytes(most)}
    if len(out) == len(alone):
        raise TooLargeError(
            "These outputs would take {size} MB, and at most {most} MB are given here: make a "
            "shorter run.",
            **megabytes,
        )
    raise TooLargeError(
        "These outputs would take {size} MB, and at most {most} MB are given here: leave out "
        "{names}.",
        **megabytes,
        names=join_words(out),
    )


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:.3g}" if size < 1e8 else f"{size / 1e6:.0f}"


def _output_dimensions(trace: Trace, model: LoadedModel | None) -> _Dimensions:
    loaded = model or find_recorded_model(trace.model)
    config, cached = _config_and_cache(trace, loaded)
    dtype = trace.model.dtype if loaded is None else str(loaded.model.dtype).removeprefix("torch.")
    text = config.get_text_config(decoder=True)
    apart = config.is_encoder_decoder
    feeds = trace.model.is_encoder_decoder
    encoder = config.get_text_config(encoder=True) if apart else config
    layers = int(_first_integer(text, "num_decoder_layers", "decoder_layers", "num_hidden_layers"))
    return _Dimensions(
        config=config,
        kind=_SAFETENSORS_KINDS.get(dtype, "F32"),
        vocab=int(text.vocab_size),
        start=1 if feeds else len(trace.prompt_ids),
        read=(len(trace.prompt_ids) if feeds else _encoder_positions(encoder)) if apart else 0,
        encoder=(
            int(_first_integer(encoder, "encoder_layers", "num_layers", "num_hidden_layers")),
            int(_first_integer(encoder, "encoder_attention_heads", "num_attention_heads")),
        )
        if apart
        else (0, 0),
        width=int(_first_integer(encoder, "hidden_size")),
        layers=layers,
        heads=int(_first_integer(text, "decoder_attention_heads", "num_attention_heads")),
        hidden=int(_first_integer(text, "hidden_size")),
        windows=_attention_windows(text, layers),
        cached=cached,
    )


def _config_and_cache(trace: Trace, loaded: LoadedModel | None) -> tuple[Any, bool]:
    """Return the configuration of a run's model and whether the run used a cache.

    Raises:
        ModelError: the model is not on this machine.
    """
    strategy, name = STRATEGIES[trace.strategy], trace.model.id
    if loaded is not None:
        return loaded.model.config, uses_cache(strategy, loaded.capabilities)
    source = Source.parse(name)
    folder, can = source.folder(), descriptions.describe_model(source)
    if folder is None or can is None:
        raise ModelError(
            "{name} is not on this machine, so the size of its outputs is not known.", name=name
        )
    return descriptions.auto_class(name, folder)[1], uses_cache(strategy, can)


def _first_integer(config: Any, *names: str) -> Any:
    """Return the first of a configuration's fields that is an integer.

    Raises:
        ModelError: none of them is.
    """
    found = (getattr(config, name, None) for name in names)
    value = next((value for value in found if isinstance(value, int)), None)
    if value is None:
        raise ModelError(
            "A model of the kind {kind} does not say its {field}, so the size of its "
            "outputs is not known.",
            kind=config.model_type,
            field=names[-1],
        )
    return value


def _encoder_positions(encoder: Any) -> int:
    """Return the number of positions that an encoder reads for a picture or a sound."""
    sound = getattr(encoder, "max_source_positions", None)
    if isinstance(sound, int):
        return sound
    image, patch = getattr(encoder, "image_size", 0), getattr(encoder, "patch_size", 1)
    return (int(image) // int(patch)) ** 2 + 1  # the patches and a class token


def _attention_windows(config: Any, layers: int) -> tuple[int | None, ...]:
    """Return the attention window of each layer that returns attentions; None is unlimited."""
    window = getattr(config, "sliding_window", None) or getattr(
        config, "attention_chunk_size", None
    )
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return (window if isinstance(window, int) else None,) * layers
    seeing = [kind for kind in kinds[:layers] if kind in _ATTENTION_LAYER_TYPES]
    return tuple(window if kind in _ATTENTION_LAYER_TYPES[1:3] else None for kind in seeing)


def _output_class(trace: Trace, sizes: _Dimensions) -> str:
    beams = "Beam" if (trace.config.get("num_beams") or 1) > 1 else ""
    built = "EncoderDecoder" if sizes.config.is_encoder_decoder else "DecoderOnly"
    return f"Generate{beams}{built}Output"


def _planned_tensors(
    trace: Trace, sizes: _Dimensions, flags: OutputFlags
) -> Iterator[PlannedTensor]:
    """Yield every tensor of the outputs."""
    rows, passes = count_rows(trace), count_passes(trace)
    longest = max(len(output.token_ids) for output in trace.outputs)
    searched = (trace.config.get("num_beams") or 1) > 1
    returned = trace.config.get("num_return_sequences") or 1 if searched else rows
    yield PlannedTensor("sequences", "sequences", "I64", (returned, sizes.start + longest))
    if searched:
        yield PlannedTensor("beam_indices", "beam_indices", "I32", (returned, longest))
        if flags.output_scores:
            yield PlannedTensor("sequences_scores", "sequences_scores", "F32", (returned,))
    for field in ("scores", "logits"):
        if getattr(flags, f"output_{field}"):
            for step in range(passes):
                yield PlannedTensor(field, f"{field}.{step}", "F32", (rows, sizes.vocab))
    prefix = "decoder_" if sizes.config.is_encoder_decoder else ""
    for step in range(passes):
        seen = sizes.start + step
        new = 1 if sizes.cached and step else seen
        if flags.output_hidden_states:
            shape = (rows, new, sizes.hidden)
            yield from _layer_tensors(
                f"{prefix}hidden_states", step, sizes.kind, [shape] * (sizes.layers + 1)
            )
        if flags.output_attentions:
            yield from _attention_tensors(sizes, prefix, step, (rows, new, seen))
    yield from _encoder_tensors(sizes, flags)


def _attention_tensors(
    sizes: _Dimensions, prefix: str, step: int, seen: tuple[int, int, int]
) -> Iterator[PlannedTensor]:
    """Yield the attentions of a step; `seen` is (rows, positions read, positions attended to)."""
    rows, new, whole = seen
    # A sliding-window cache drops earlier positions only after the first pass.
    cut = sizes.cached and step > 0
    shapes = [
        (rows, sizes.heads, new, min(whole, window) if window is not None and cut else whole)
        for window in sizes.windows
    ]
    yield from _layer_tensors(f"{prefix}attentions", step, sizes.kind, shapes)
    if sizes.config.is_encoder_decoder:
        across = (rows, sizes.heads, new, sizes.read)
        yield from _layer_tensors("cross_attentions", step, sizes.kind, [across] * sizes.layers)


def _encoder_tensors(sizes: _Dimensions, flags: OutputFlags) -> Iterator[PlannedTensor]:
    """Yield the tensors of the encoder."""
    # generate() runs the encoder once, before it repeats the batch for beams: always one row.
    layers, heads = sizes.encoder
    if layers and flags.output_hidden_states:
        shapes = [(1, sizes.read, sizes.width)] * (layers + 1)
        yield from _layer_tensors(ENCODER_FIELDS[1], None, sizes.kind, shapes)
    if layers and flags.output_attentions:
        shapes = [(1, heads, sizes.read, sizes.read)] * layers
        yield from _layer_tensors(ENCODER_FIELDS[0], None, sizes.kind, shapes)


def _layer_tensors(
    field: str, step: int | None, kind: str, shapes: list[tuple[int, ...]]
) -> Iterator[PlannedTensor]:
    at = field if step is None else f"{field}.{step}"
    for layer, shape in enumerate(shapes):
        yield PlannedTensor(field, f"{at}.layer.{layer}", kind, shape)


def _header_size(tensors: list[PlannedTensor], about: Mapping[str, str]) -> int:
    """Return the size in bytes of the file's header: a length and JSON with all offsets."""
    listed: dict[str, Any] = {"__metadata__": dict(about)}
    order = list(_BYTES_PER_NUMBER)
    at = 0
    for tensor in sorted(tensors, key=lambda t: (order.index(t.kind), t.name)):
        place = [at, at + tensor.bytes]
        listed[tensor.name] = {"dtype": tensor.kind, "shape": tensor.shape, "data_offsets": place}
        at = place[1]
    text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    # safetensors pads the JSON to a multiple of 8 bytes.
    return _ALIGNMENT + math.ceil(len(text.encode()) / _ALIGNMENT) * _ALIGNMENT
