"""Build a model from its configuration on torch's meta device, to learn its capabilities without weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from engine.errors import ModelError
from engine.models import files, sizes
from engine.models.capabilities import Capabilities, capabilities_of, writes_tokens
from engine.sources.source import Source

_REFUSALS: dict[tuple[Any, ...], str] = {}
_MAX_REFUSALS = 256
_LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_COUNTS = (
    *("sliding_window", "attention_chunk_size", "number_of_conv_states"),
    *("decoder_layers", "num_decoder_layers", "num_mtp_layers"),
)
"""Fields that transformers' caches, or ``capabilities``, read of configurations of every class."""
_MAX_FIELDS_TRIED = 64
"""A configuration may have any number of fields, and each try builds a layer."""

CONSTRUCTION_LOCK = threading.RLock()
"""Lock around building a model: transformers is not thread-safe there, and a model can lose its weights."""


def describe_model(source: Source) -> Capabilities | None:
    """Return a model's capabilities; None if its files are not on this machine.

    Nothing is downloaded.

    Args:
        source: where the model comes from.

    Raises:
        ModelError: no usable model can be built from its config.json.
    """
    folder = source.folder()
    return None if folder is None else _folder_capabilities(source.name, folder)


def auto_class(name: str, folder: str) -> tuple[Any, Any]:
    """Return the transformers auto class for a folder's model, and its configuration.

    If several auto classes know the configuration, the one whose class wrote the files is chosen:
    some models exist with and without a vision part.

    Raises:
        ModelError: the model does not generate text.
    """
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForSeq2SeqLM,
        AutoModelForSpeechSeq2Seq,
    )

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    text: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    media: list[Any] = [AutoModelForImageTextToText, AutoModelForSpeechSeq2Seq]
    known = [auto for auto in (text, *media) if type(config) in auto._model_mapping]
    found = [auto for auto in known if writes_tokens(auto._model_mapping[type(config)])]
    if known and not found:
        raise ModelError(
            "{name} is of the kind {kind}, which does not write its text token by token.",
            name=name,
            kind=config.model_type,
        )
    wrote = set(config.architectures or ())
    # One configuration may serve several classes; its architectures name the one that was saved.
    own = [a for a in found if a._model_mapping[type(config)].__name__ in wrote]
    if not found:
        other: Any = AutoModelForCausalLM if config.is_encoder_decoder else AutoModelForSeq2SeqLM
        value = files.check_config(folder).get("is_encoder_decoder")
        if value is not None and type(config) in other._model_mapping:
            raise files.odd_field_error("config.json", "is_encoder_decoder", value, ValueError())
        raise ModelError(
            "{name} is of the kind {kind}, and only models that write text can be used.",
            name=name,
            kind=config.model_type,
        )
    return (own or found)[0], config


def build_meta_model(name: str, folder: str, config: Mapping[str, object]) -> tuple[Any, Any]:
    """Return the auto class of a folder's model, and the model on the meta device.

    Refusals are remembered, since building a hundred layers takes a second under a global lock.

    Args:
        name: the model's name.
        folder: its folder.
        config: the content of its config.json.

    Raises:
        ModelError: the kind is not supported, the weights are damaged, or they hold fewer values
            than the configuration describes.
    """
    key = (folder, _file_states(folder))
    if key in _REFUSALS:
        raise ModelError(_REFUSALS[key])
    try:
        return build_from_config(name, folder, config, partial(sizes.count_values, name, folder))
    except ModelError as error:
        _REFUSALS[key] = str(error)
        while len(_REFUSALS) > _MAX_REFUSALS:
            _REFUSALS.pop(next(iter(_REFUSALS)), None)
        raise


def _file_states(folder: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, modification time and size of the model's files, to detect changes."""
    paths = [Path(folder) / "config.json", *sorted(Path(folder).glob("*.safetensors"))]
    found = [(path.name, path.stat()) for path in paths if path.is_file()]
    return tuple((name, about.st_mtime_ns, about.st_size) for name, about in found)


def build_from_config(
    name: str, folder: str, config: Mapping[str, object], values_in: Callable[[], int]
) -> tuple[Any, Any]:
    """Return the same as ``build_meta_model``, for a config.json without local weights and without memory of refusals.

    Args:
        name: the model's name.
        folder: the folder of its config.json.
        config: the content of its config.json.
        values_in: returns the most values its weights can hold; called once its kind is known.

    Raises:
        ModelError: the kind is not supported, the weights are damaged, or they hold fewer values
            than the configuration describes.
    """
    auto = None
    try:
        auto, read = auto_class(name, folder)
        values = values_in()
        sizes.check_sizes(config, values)
        with CONSTRUCTION_LOCK, torch.device("meta"):
            # Without an explicit dtype transformers sets torch's global default dtype meanwhile,
            # which would change concurrent runs.
            model = auto.from_config(read, dtype=torch.float32, trust_remote_code=False)
        _check_counts(read)
    except ModelError:
        raise
    except Exception as error:  # a configuration may break any rule of its class
        odd = _find_odd_field(config, error, auto)
        if odd is not None:
            raise odd from None
        kind = type(error).__name__
        raise ModelError(
            "{name} has a config.json that no model can be built from ({kind}).",
            name=name,
            kind=kind,
        ) from None
    sizes.check_meta_size(model, values, packed="quantization_config" in config)
    return auto, model


def _check_counts(config: Any) -> None:
    """Check the fields that are read of every configuration, also where its class does not check them.

    Raises:
        ModelError: one is no whole number.
    """
    text = config.get_text_config(decoder=True)
    for name in _COUNTS:
        value = getattr(text, name, None)
        if value is not None and not isinstance(value, int):
            raise files.odd_field_error("config.json", name, value, TypeError())


def _find_odd_field(config: Mapping[str, object], error: Exception, auto: Any) -> ModelError | None:
    """Return the error that names the odd field of a config.json; None if it is not a single one.

    Args:
        config: the fields.
        error: what building the model raised.
        auto: the model's auto class; None if the configuration itself cannot be built.
    """
    from transformers import CONFIG_MAPPING, AutoConfig

    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        return files.odd_field_error("config.json", "model_type", kind, error)

    def build(some: Mapping[str, object]) -> object:
        # What is nested is only looked at when it is used or written.
        return AutoConfig.for_model(kind, **some).get_text_config(decoder=True).to_dict()

    others = {name: value for name, value in config.items() if name != "model_type"}
    found = files.find_odd_field("config.json", others, build)
    if found is None and isinstance(error, KeyError) and error.args:
        # A name that transformers looks up, such as that of an activation function.
        odd = next((name for name, value in others.items() if value == error.args[0]), None)
        if odd is not None:
            return files.odd_field_error("config.json", odd, others[odd], error)
    return found if found or auto is None else _find_spoiling_field(auto, kind, others, error)


def _find_spoiling_field(
    auto: Any, kind: str, fields: Mapping[str, object], error: Exception
) -> ModelError | None:
    """Return the error that names the field without which a model of one layer can be built."""
    from transformers import AutoConfig

    layers = {name: value for name, value in fields.items() if name in _LAYER_COUNTS}
    small = {name: _of_one_layer(value, layers.values()) for name, value in fields.items()}
    small |= dict.fromkeys(layers, 1)

    def can_build(some: Mapping[str, object]) -> bool:
        try:
            with CONSTRUCTION_LOCK, torch.device("meta"):
                auto.from_config(AutoConfig.for_model(kind, **some), dtype=torch.float32)
        except Exception:  # as above
            return False
        return True

    if can_build(small):
        return None
    for name in islice(small, _MAX_FIELDS_TRIED):
        if name not in layers and can_build({n: small[n] for n in small if n != name}):
            return files.odd_field_error("config.json", name, fields[name], error)
    return None


def _of_one_layer(value: object, counts: Collection[object]) -> object:
    """Return a field's value, of a list with an item for each layer the first item alone."""
    return value[:1] if isinstance(value, list) and len(value) in counts else value


@lru_cache(maxsize=64)
def _folder_capabilities(name: str, folder: str) -> Capabilities:
    return capabilities_of(build_meta_model(name, folder, files.check_config(folder))[1])
