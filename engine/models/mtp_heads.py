"""Heads of a model that guess several tokens ahead (multi-token prediction)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from engine.models.eight_bits import unpack
from engine.models.model_types import Model

SUFFIX = "-mtp"
"""Heads stored at 8 bits lie next to their model, so that loading the model reads nothing of them."""


class NoHeadsError(Exception):
    """A model's files have no weights for the heads that its configuration names."""


def load_heads(model: Model) -> Any:
    """Return transformers' ``MtpModel`` with the heads of a model, which does not change.

    The embedding, the output head and the positions are the model's own. Heads without a folder of
    their own are read from the model's checkpoint, as ``generate(use_mtp=True)`` does.

    Raises:
        NoHeadsError: the checkpoint has no weights for them.
        AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError: transformers cannot read
            them, or cannot build heads from such layers.
    """
    # Imported here: the server's threads import transformers at the same time when it starts.
    from safetensors.torch import load_file
    from transformers.modeling_layers import MtpModel

    file = Path(f"{model.config.name_or_path}{SUFFIX}", "model.safetensors")
    places = (weight.device for weight in reversed(list(model.parameters())))
    # What lies on the disk has no device.
    device = next((place for place in places if place.type != "meta"), torch.device("cpu"))
    if not file.is_file():
        if not model._keys_to_ignore_on_load_unexpected:
            raise NoHeadsError
        return MtpModel.from_pretrained(model, device_map={"": device}).eval()
    with torch.device(device):
        heads = MtpModel(model, model.config.get_text_config(decoder=True).num_mtp_layers)
    heads.layers.load_state_dict(unpack(load_file(file)))
    # The rest of it is the model's own, which stays as it is.
    heads.layers.to(dtype=model.dtype)
    return heads.eval()
