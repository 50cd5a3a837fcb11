"""Build a merged model from a LoRA adapter and its base, cached by the content of both."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.models import files, hashes, sizes
from engine.models.build_cache import Build, build_once
from engine.models.meta_model import build_meta_model
from engine.models.model_types import Model
from engine.models.shared_work import ByteProgress
from engine.sources.build_key import find_build
from engine.sources.lora_adapters import (
    BASE_SEPARATOR,
    CONFIG,
    GENERATION_CONFIG,
    WEIGHTS,
    adapter_build_files,
    read_adapter,
    tokenizer_files,
)
from engine.sources.source import Embedded, Source

_PREFIX = "base_model.model."
_MAX_SHOWN = 80


def ensure_merged(
    name: str,
    adapter: str,
    base: Source,
    under: str,
    cancelled: threading.Event | None = None,
    tell: ByteProgress | None = None,
) -> tuple[str, str]:
    """Return the folder of a merged model and the sha256 of its sources; merge it on first use.

    Args:
        name: the adapter's name.
        adapter: the adapter's folder.
        base: its base model.
        under: the base model's folder.
        cancelled: the build stops when this is set.
        tell: called with the bytes hashed so far and the total of both models.

    Raises:
        Cancelled: ``cancelled`` was set.
        ModelError: the two cannot be merged, or the disk is full. No partial result stays.
    """
    sources = adapter_build_files(adapter, under)
    found = find_build(sources)
    if found is not None:
        return str(found.resolve()), found.name
    if isinstance(base, Embedded):
        hashes.check_embedded_files(base.name)
    build_meta_base(name, adapter, base.name, under)
    copied = [*tokenizer_files(adapter, under), Path(under) / GENERATION_CONFIG]
    build = Build(
        name,
        sources,
        job="engine.models.adapter_merge",
        order={
            "adapter": adapter,
            "base": under,
            "values": sizes.count_values(base.name, under),
            "copied": [str(path) for path in copied if path.is_file()],
        },
        failure=Message("{name} could not be merged", name=name),
        about={"adapter": adapter, "base": base.name},
    )
    return build_once(build, cancelled, tell)


def build_meta_base(name: str, folder: str, base: str, under: str) -> Any:
    """Return an adapter's base model on the meta device, without weights.

    Args:
        name: the adapter's name.
        folder: the folder of its adapter_config.json.
        base: the name of its base model.
        under: the base model's folder.

    Raises:
        ModelError: the base cannot be used, or the adapter does not fit it.
    """
    config = files.check_folder(under)
    if config.get("quantization_config"):
        raise ModelError(
            "{name} is a LoRA adapter of {base}, whose weights are kept quantised; name "
            'a base that has them whole, as in "{example}BASE".',
            name=name,
            base=base,
            example=name + BASE_SEPARATOR,
        )
    model = build_meta_model(base, under, config)[1]
    if read_adapter(name, folder).encodes != bool(model.config.is_encoder_decoder):
        kind = "an encoder-decoder" if model.config.is_encoder_decoder else "a decoder alone"
        raise ModelError(
            "{name} does not fit its base by the task_type of its {file}: {base} is {kind}.",
            name=name,
            file=CONFIG,
            base=base,
            kind=kind,
        )
    if (Path(folder) / WEIGHTS).is_file():
        _check_shapes(name, Path(folder) / WEIGHTS, base, model)
    return model


def _check_shapes(name: str, weights: Path, base: str, model: Model) -> None:
    """Raise ModelError if the adapter names a layer the base lacks or has another input size."""
    from safetensors import safe_open

    try:
        with safe_open(weights, "np") as opened:
            shapes = {key: opened.get_slice(key).get_shape() for key in opened.keys()}  # noqa: SIM118 - it is no dict
    except Exception:  # SafetensorError derives from Exception alone
        raise ModelError(
            "{name} has a damaged weights file: {file}.", name=name, file=WEIGHTS
        ) from None
    layers = dict(model.named_modules())
    for key, shape in shapes.items():
        place, part, _ = key.removeprefix(_PREFIX).partition(".lora_A.weight")
        # lora_A alone is compared: its last size is the number of values that the layer takes.
        if not part:
            continue
        layer = layers.get(place)
        if layer is None:
            raise ModelError(
                "{name} does not fit its base: {base} has no layer {place}.",
                name=name,
                base=base,
                place=place[:_MAX_SHOWN],
            )
        # GPT-2's Conv1D calls this size nx.
        wide = getattr(layer, "in_features", None) or getattr(layer, "nx", None)
        if wide is not None and shape[-1] != wide:
            raise ModelError(
                "{name} does not fit its base: {place} of {base} takes {wide} values, and "
                "the adapter's {own}.",
                name=name,
                place=place[:_MAX_SHOWN],
                base=base,
                wide=wide,
                own=shape[-1],
            )
