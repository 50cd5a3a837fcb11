"""LoRA adapters of embedded models, made with peft and a seed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from engine.models import adapter_merge
from engine.sources.catalogue import CATALOGUE, MODEL_DIR

BASE = "storyteller-draft"
_SPREAD = 0.1


def plain(base: str = BASE) -> Any:
    """Return an embedded model in float32, as transformers loads it."""
    auto: Any = AutoModelForSeq2SeqLM if CATALOGUE[base].kind == "seq2seq" else AutoModelForCausalLM
    return auto.from_pretrained(MODEL_DIR / base, dtype=torch.float32).eval()


def make_adapter(folder: Path, base: str = BASE, **lora: Any) -> Any:
    """Write an adapter that changes what its base writes; return both together, as peft runs them.

    Args:
        folder: takes it.
        base: an embedded model.
        lora: fields of its LoraConfig.
    """
    task = "SEQ_2_SEQ_LM" if CATALOGUE[base].kind == "seq2seq" else "CAUSAL_LM"
    fields = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]} | lora
    with warnings.catch_warnings(), torch.random.fork_rng():
        torch.manual_seed(5)
        # peft asks transformers by names that are to go, and warns of shared weights.
        warnings.simplefilter("ignore")
        adapted = get_peft_model(plain(base), LoraConfig(task_type=task, **fields))
    draw = torch.Generator().manual_seed(5)
    for name, values in adapted.named_parameters():
        # peft begins with a product of nothing.
        if "lora_" in name and not values.any():
            values.data = _SPREAD * torch.randn(values.shape, generator=draw)
    adapted.peft_config["default"].base_model_name_or_path = base
    adapted.save_pretrained(folder, save_embedding_layers=False)
    return adapted.eval()


def merged_here(folder: Path, base: str = BASE) -> Any:
    """Return the base with an adapter merged into it, in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return adapter_merge._merge_and_check(plain(base), str(folder))


def change_config(folder: Path, **fields: Any) -> None:
    """Write fields into an adapter's adapter_config.json."""
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
