"""What a model that was not loaded can do: it is built from its configuration, without weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from engine.errors import ModelError
from engine.models import files, sizes
from engine.models.capabilities import Capabilities, capabilities_of

_REFUSED: dict[tuple[Any, ...], str] = {}
_MOST_REFUSED = 256

BUILDING = threading.RLock()
"""Held while transformers builds a model: what two threads build at once can be left without weights."""


def described(name: str) -> tuple[str, Capabilities] | None:
    """Return a model's name and what it can do; None where its files are not on this machine.

    Nothing is downloaded.

    Args:
        name: as in ``load``.

    Raises:
        ModelError: its config.json describes no model that can be used.
    """
    folder = files.local_folder(name)
    return None if folder is None else (name, _of_folder(name, folder))


def auto_class(name: str, folder: str) -> tuple[Any, Any]:
    """Return the auto class that makes a folder's model, and its configuration.

    Of a model that is in several of them the class that wrote its files is taken: some exist with and without
    the part that looks at pictures.

    Raises:
        ModelError: the model is of a kind that does not write text.
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
    found = [auto for auto in (text, *media) if type(config) in auto._model_mapping]
    wrote = set(config.architectures or ())
    own = [a for a in found if a._model_mapping[type(config)].__name__ in wrote]
    if not found:
        raise ModelError(
            f"{name} is of the kind {config.model_type}, and only models that write text can be used."
        )
    return (own or found)[0], config


def built(name: str, folder: str, config: dict[str, Any]) -> tuple[Any, Any]:
    """Return the auto class of a folder's model, and the model without memory for its weights.

    What is refused is refused at once the next time: building a hundred layers takes a second of everybody's.

    Args:
        name: what it is called.
        folder: its files.
        config: its config.json.

    Raises:
        ModelError: it is of another kind, its weights are damaged, or they hold less than it asks for.
    """
    key = (folder, _state(folder))
    if key in _REFUSED:
        raise ModelError(_REFUSED[key])
    try:
        return build(name, folder, config, partial(sizes.values_in, name, folder))
    except ModelError as error:
        _REFUSED[key] = str(error)
        while len(_REFUSED) > _MOST_REFUSED:
            _REFUSED.pop(next(iter(_REFUSED)), None)
        raise


def _state(folder: str) -> tuple[tuple[str, int, int], ...]:
    """Return what tells that files of a folder are others than before."""
    paths = [Path(folder) / "config.json", *sorted(Path(folder).glob("*.safetensors"))]
    found = [(path.name, path.stat()) for path in paths if path.is_file()]
    return tuple((name, about.st_mtime_ns, about.st_size) for name, about in found)


def build(
    name: str, folder: str, config: dict[str, Any], values_in: Callable[[], int]
) -> tuple[Any, Any]:
    """Return what ``built`` does, of a config.json whose weights may be elsewhere.

    Args:
        name: what it is called.
        folder: where the config.json is.
        config: what it says.
        values_in: returns how many values its weights hold at most; asked once its kind is known.

    Raises:
        ModelError: it is of another kind, its weights are damaged, or they hold less than it asks for.
    """
    try:
        auto, read = auto_class(name, folder)
        values = values_in()
        sizes.check_sizes(config, values)
        with BUILDING, torch.device("meta"):
            # A kind of number of its own would be everybody's default while it is built, runs' too.
            model = auto.from_config(read, dtype=torch.float32, trust_remote_code=False)
    except ModelError:
        raise
    except Exception as error:  # a configuration may break any rule of its class
        kind = type(error).__name__
        raise ModelError(
            f"{name} has a config.json that no model can be built from ({kind})."
        ) from None
    sizes.check_built(model, values, packed="quantization_config" in config)
    return auto, model


@lru_cache(maxsize=64)
def _of_folder(name: str, folder: str) -> Capabilities:
    return capabilities_of(built(name, folder, files.check_config(folder))[1])
