"""What a model that was not loaded can do: it is built from its configuration, without weights."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import torch

from engine.errors import ModelError
from engine.models import files
from engine.models.capabilities import Capabilities, capabilities_of

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

    Raises:
        ModelError: the model is of a kind that does not read and write text.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    if type(config) not in auto._model_mapping:
        raise ModelError(
            f"{name} is of the kind {config.model_type}, and only models that read and write text"
            " can be used so far."
        )
    return auto, config


@lru_cache(maxsize=64)
def _of_folder(name: str, folder: str) -> Capabilities:
    files.check_config(folder)
    try:
        auto, config = auto_class(name, folder)
        with BUILDING, torch.device("meta"):
            return capabilities_of(auto.from_config(config, trust_remote_code=False))
    except ModelError:
        raise
    except Exception as error:  # a configuration may break any rule of its class
        kind = type(error).__name__
        raise ModelError(
            f"{name} has a config.json that no model can be built from ({kind})."
        ) from None
