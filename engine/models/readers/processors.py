"""The transformers processors that prepare pictures and sounds for a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError

_FILES = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True)
class Processors:
    """The processors of one model; each may be None.

    Attributes:
        whole: a processor that combines pictures and text.
        pictures: an image processor.
        sounds: a feature extractor.
    """

    whole: Any = None
    pictures: Any = None
    sounds: Any = None


def load_processors(name: str, folder: str) -> Processors:
    """Load the processors of a model's folder; all None if it declares none.

    Args:
        name: the model's name.
        folder: the model's folder.

    Raises:
        ModelError: transformers cannot load the declared processors.
    """
    if not any((Path(folder) / file).is_file() for file in _FILES):
        return Processors()
    from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoProcessor

    whole, error = _try_load(AutoProcessor, folder)
    found = Processors() if whole is None else to_processors(whole)
    if found.pictures is not None or found.sounds is not None:
        return found
    # A folder may describe one part only, which AutoProcessor cannot load.
    pictures, _ = _try_load(AutoImageProcessor, folder)
    sounds, _ = _try_load(AutoFeatureExtractor, folder)
    if pictures is None and sounds is None:
        kind = type(error).__name__ if error is not None else "no processor"
        raise ModelError(
            "{name} has a preprocessor_config.json that cannot be read ({kind}).",
            name=name,
            kind=kind,
        )
    return Processors(None, pictures, None if pictures is not None else sounds)


def _try_load(auto: Any, folder: str) -> tuple[Any, Exception | None]:
    load: Callable[..., Any] = auto.from_pretrained
    try:
        return load(folder, local_files_only=True, trust_remote_code=False), None
    except Exception as error:  # a processor's files may break any rule of its class
        return None, error


def to_processors(value: object) -> Processors:
    """Return Processors for a transformers processor of any kind, including its parts.

    Args:
        value: a processor, an image processor, a feature extractor, or Processors.
    """
    from transformers import ProcessorMixin

    if isinstance(value, Processors):
        return value
    if isinstance(value, ProcessorMixin):
        pictures = getattr(value, "image_processor", None)
        return Processors(value, pictures, getattr(value, "feature_extractor", None))
    if hasattr(value, "sampling_rate"):
        return Processors(sounds=value)
    return Processors(pictures=value if hasattr(value, "preprocess") else None)
