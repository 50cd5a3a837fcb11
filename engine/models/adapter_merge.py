"""Merge a LoRA adapter into its base model in a subprocess, as a folder of safetensors."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.models.gguf_conversion import check_resources, check_weights_complete
from engine.models.model_types import Model
from engine.models.subprocess_job import check_package, handle_job
from engine.sources.lora_adapters import CONFIG, WEIGHTS

PACKAGE = "peft"
_MISMATCH = re.compile(
    r"size mismatch for (\S+): copying a param with shape torch\.Size\((\[.*?\])\) from checkpoint,"
    r" the shape in current model is torch\.Size\((\[.*?\])\)"
)
_PROBE_TOKENS = 8
"""Number of tokens on which the model is compared before and after the merge."""
_TOLERANCE = 1e-3
"""Largest difference of logits before and after the merge, relative to the largest logit.

Rounding of float32 makes 3.2e-6 at most."""


def check_can_merge(name: str) -> None:
    """Check, before anything is fetched, that the package that merges adapters is installed.

    Args:
        name: the adapter's name.

    Raises:
        ModelError: the package is missing; the message says how to install it.
    """
    check_package(
        PACKAGE,
        Message(
            "{name} is a LoRA adapter, and the package {package} that merges it",
            name=name,
            package=PACKAGE,
        ),
    )


def _merge_job(order: dict[str, Any]) -> None:
    import torch

    from engine.models.meta_model import auto_class
    from engine.models.model_views import special_ids_config

    folder, own = order["folder"], Path(order["own"])
    check_resources(order["values"], folder, "float32")
    auto, _ = auto_class("its base", order["base"])
    model, report = auto.from_pretrained(
        order["base"],
        dtype=torch.float32,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    check_weights_complete(report)
    with torch.inference_mode():
        # peft gets an empty folder with these two links, so it reads no other file of the adapter's.
        for file in (CONFIG, WEIGHTS):
            (own / file).symlink_to((Path(order["adapter"]) / file).resolve())
        merged = _merge_and_check(model.eval(), str(own))
    merged.generation_config = special_ids_config(merged)
    merged.save_pretrained(folder)
    for path in order["copied"]:
        shutil.copy(path, folder)


def _merge_and_check(model: Model, adapter: str) -> Any:
    """Return the base with the adapter merged into its weights, free of peft's modules.

    Raises:
        ModelError: they do not fit together, or the merge changes the logits.
    """
    import torch
    from peft import PeftModel

    tied = _untie_head(model, adapter)
    adapted = _load_adapter(PeftModel, model, adapter)
    # A tiny vocabulary may have fewer tokens than the probe.
    ids = torch.arange(_PROBE_TOKENS)[None] % model.config.get_text_config(decoder=True).vocab_size
    given = {"input_ids": ids} | (
        {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    )
    expected = adapted(**given, use_cache=False).logits
    merged = adapted.merge_and_unload(safe_merge=True)
    found = merged(**given, use_cache=False).logits
    # Written with "not", so that NaN is refused too.
    if not (found - expected).abs().max() <= _TOLERANCE * expected.abs().max():
        raise ModelError("merged it would not be the model that base and adapter are together")
    head, table = merged.get_output_embeddings(), merged.get_input_embeddings()
    # Tie the weights again if the merge left both equal.
    if tied and torch.equal(head.weight, table.weight):
        merged.config.get_text_config(decoder=True).tie_word_embeddings = True
        merged.config.tie_word_embeddings = True
        merged.tie_weights()
    return merged


def _untie_head(model: Model, adapter: str) -> bool:
    """Untie a decoder's head from its embeddings if the adapter changes either; return whether it did.

    Merged into tied weights, a change of one would change the other too.
    """
    import torch
    from safetensors import safe_open

    head, table = model.get_output_embeddings(), model.get_input_embeddings()
    if model.config.is_encoder_decoder or head is None or head.weight is not table.weight:
        return False
    names = {
        name.rpartition(".")[2] for name, part in model.named_modules() if part in (head, table)
    }
    with safe_open(Path(adapter) / WEIGHTS, "np") as opened:
        if not any(names & set(key.split(".")) for key in opened.keys()):  # noqa: SIM118 - it is no dict
            return False
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    model.config.get_text_config(decoder=True).tie_word_embeddings = False
    model.config.tie_word_embeddings = False
    return True


def _load_adapter(peft: Any, model: Model, adapter: str) -> Any:
    """Return the base with the adapter attached, not merged yet.

    Raises:
        ModelError: a weight is missing in one of them or has another shape.
    """
    try:
        # Loaded twice, since only load_adapter reports what peft fills in or skips silently.
        adapted = peft.from_pretrained(model, adapter, torch_device="cpu")
        report = adapted.load_adapter(adapter, "default", torch_device="cpu")
    except (RuntimeError, ValueError) as error:
        wrong = _MISMATCH.search(str(error))
        if wrong is not None:
            key, own, theirs = wrong.groups()
            raise ModelError(
                "it does not fit its base, which has {key} of {theirs} where the adapter has {own}",
                key=_short_key(key),
                theirs=theirs,
                own=own,
            ) from None
        if "not found in the base model" in str(error):
            raise ModelError(
                "it does not fit its base, which has no layer of the names in target_modules "
                "of {config}",
                config=CONFIG,
            ) from None
        raise
    if report.unexpected_keys:
        raise ModelError(
            "it does not fit its base, which has no place for its {key}",
            key=_short_key(report.unexpected_keys[0]),
        )
    if report.missing_keys:
        raise ModelError("it lacks the weights {name}", name=_short_key(report.missing_keys[0]))
    return adapted


def _short_key(key: str) -> str:
    return key.removeprefix("base_model.model.").replace(".default", "")


if __name__ == "__main__":
    handle_job(_merge_job)
