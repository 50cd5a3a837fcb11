"""Heads for tiny models (multi-token prediction), on disk where a run finds them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers.modeling_layers import MtpModel

from engine.models.mtp_heads import SUFFIX

_PLACE = tempfile.TemporaryDirectory()
HEADED = frozenset(
    {
        *("Apertus", "Arcee", "DeepseekV3", "DiffLlama", "Exaone4", "Gemma", "Gemma2"),
        *("Gemma3Text", "Glm4", "GptOss", "Granite", "GraniteMoe", "JetMoe", "Llama"),
        *("Mistral", "Mixtral", "Olmo2", "Olmo3", "Olmoe", "Phi3", "Qwen2", "Qwen2Moe"),
        *("Qwen3", "Qwen3Moe", "SmolLM3"),
    }
)
"""Architectures whose layers transformers can build heads from."""


def with_heads(model: Any, folder: Path | None = None, count: int = 2) -> Any:
    """Return the model, which gets heads that guess its last token again, more or less.

    Args:
        model: of a kind in ``HEADED``.
        folder: where the model is going to be saved; None for one that stays in memory.
        count: how many heads.
    """
    config = model.config.get_text_config(decoder=True)
    config.num_mtp_layers = count
    for kind in ("layer_types", "mlp_layer_types"):
        if getattr(config, kind, None):
            setattr(config, f"mtp_{kind}", [getattr(config, kind)[-1]] * count)
    torch.manual_seed(7)
    layers = MtpModel(model, count).layers
    with torch.no_grad():
        for name, weight in layers.named_parameters():
            if "eh_proj" in name:
                weight[:, weight.shape[0] :].copy_(torch.eye(weight.shape[0]))
            elif weight.ndim > 1:
                weight.normal_(std=0.05)
    place = folder or Path(tempfile.mkdtemp(dir=_PLACE.name)) / "model"
    store = Path(f"{place}{SUFFIX}")
    store.mkdir()
    weights = {name: weight.contiguous() for name, weight in layers.state_dict().items()}
    save_file(weights, store / "model.safetensors")
    model.config.name_or_path = str(place)
    return model
