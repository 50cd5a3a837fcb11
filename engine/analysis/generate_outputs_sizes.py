"""Estimate the file size of transformers' outputs from their shapes, without running the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.analysis.generate_outputs_files import ENCODER_FIELDS, output_metadata
from engine.analysis.generate_outputs_flags import (
    OutputFlags,
    count_passes,
    count_rows,
    parse_flags,
)
from engine.errors import EngineError, ModelError
from engine.messages import join_words
from engine.model_code import PROPERTIES, ModelCall
from engine.models import meta_model as descriptions
from engine.models.loading import LoadedModel, find_recorded_model
from engine.settings import SETTINGS
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import uses_cache
from engine.trace.records import Trace

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_ID_BYTES, _NUMBER_BYTES = 8, 4
"""Bytes of a token id, and of a score or a beam index."""
_HALF_DTYPES = ("bfloat16", "float16")
_ENTRY_BYTES = 66
"""Bytes of a small tensor's entry in the file's header besides its name; in a large file the header hardly counts."""
_ATTENTION_LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "attention")


class TooLargeError(EngineError):
    """Outputs would exceed the size limit; the message says which flags to leave out."""

    code = "too_large"


@dataclass(frozen=True)
class _Dimensions:
    """The dimensions that determine the shapes of a run's outputs.

    Attributes:
        bytes: bytes of a number in the layers' tensors.
        start: number of ids before the text in every sequence.
        read: positions that the encoder reads, 0 without an encoder.
        encoder: number of encoder layers and of their heads.
        width: size of the encoder's hidden states.
        windows: attention window of each decoder layer that returns attentions; None is unlimited.
        cached: whether a pass after the first reads the new position only.
    """

    config: Any
    bytes: int
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
    flags: OutputFlags | Mapping[str, bool] | None = None,
) -> int:
    """Return the size in bytes, within 1 %, of the file with a run's outputs, without running the model.

    For models whose layers differ it is an upper bound.

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
    about = len(json.dumps(output_metadata(trace, wanted)))
    tensors = _planned_tensors(trace, sizes, wanted)
    return about + sum(len(name) + _ENTRY_BYTES + size for name, size in tensors)


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
    left = size
    out: list[str] = []
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


@ModelCall(PROPERTIES)
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
        bytes=2 if dtype in _HALF_DTYPES else _NUMBER_BYTES,
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


def _first_integer(config: PretrainedConfig, *names: str) -> Any:
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


def _encoder_positions(encoder: object) -> int:
    """Return the number of positions that an encoder reads for a picture or a sound."""
    sound = getattr(encoder, "max_source_positions", None)
    if isinstance(sound, int):
        return sound
    image, patch = getattr(encoder, "image_size", 0), getattr(encoder, "patch_size", 1)
    return (int(image) // int(patch)) ** 2 + 1  # the patches and a class token


def _attention_windows(config: object, layers: int) -> tuple[int | None, ...]:
    """Return the attention window of each layer that returns attentions; None is unlimited."""
    window = getattr(config, "sliding_window", None) or getattr(
        config, "attention_chunk_size", None
    )
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return (window if isinstance(window, int) else None,) * layers
    seeing = [kind for kind in kinds[:layers] if kind in _ATTENTION_LAYER_TYPES]
    return tuple(window if kind in _ATTENTION_LAYER_TYPES[1:3] else None for kind in seeing)


def _planned_tensors(
    trace: Trace, sizes: _Dimensions, flags: OutputFlags
) -> Iterator[tuple[str, int]]:
    """Yield the name and the bytes of every tensor of the outputs."""
    rows, passes = count_rows(trace), count_passes(trace)
    longest = max(len(output.token_ids) for output in trace.outputs)
    searched = (trace.config.get("num_beams") or 1) > 1
    returned = trace.config.get("num_return_sequences") or 1 if searched else rows
    yield "sequences", _ID_BYTES * returned * (sizes.start + longest)
    if searched:
        yield "beam_indices", _NUMBER_BYTES * returned * longest
    for field in ("scores", "logits"):
        if getattr(flags, f"output_{field}"):
            for step in range(passes):
                yield f"{field}.{step}", _NUMBER_BYTES * rows * sizes.vocab
    prefix = "decoder_" if sizes.config.is_encoder_decoder else ""
    for step in range(passes):
        seen = sizes.start + step
        # With a cache only the first pass reads more than one token.
        new = 1 if sizes.cached and step else seen
        if flags.output_hidden_states:
            # One more than there are layers: the embeddings come first.
            hidden = [sizes.bytes * rows * new * sizes.hidden] * (sizes.layers + 1)
            yield from _layer_tensors(f"{prefix}hidden_states.{step}", hidden)
        if flags.output_attentions:
            # A sliding-window cache drops earlier positions only after the first pass.
            cut = sizes.cached and step > 0
            widths = [min(seen, window or seen) if cut else seen for window in sizes.windows]
            each = sizes.bytes * rows * sizes.heads * new
            yield from _layer_tensors(f"{prefix}attentions.{step}", [each * w for w in widths])
            if sizes.config.is_encoder_decoder:
                across = [each * sizes.read] * sizes.layers
                yield from _layer_tensors(f"cross_attentions.{step}", across)
    yield from _encoder_tensors(sizes, flags)


def _encoder_tensors(sizes: _Dimensions, flags: OutputFlags) -> Iterator[tuple[str, int]]:
    # generate() runs the encoder once, before it repeats the batch for beams: always one row.
    layers, heads = sizes.encoder
    if layers and flags.output_hidden_states:
        hidden = [sizes.bytes * sizes.read * sizes.width] * (layers + 1)
        yield from _layer_tensors(ENCODER_FIELDS[1], hidden)
    if layers and flags.output_attentions:
        each = sizes.bytes * heads * sizes.read**2
        yield from _layer_tensors(ENCODER_FIELDS[0], [each] * layers)


def _layer_tensors(field: str, layers: list[int]) -> Iterator[tuple[str, int]]:
    for layer, size in enumerate(layers):
        yield f"{field}.layer.{layer}", size
