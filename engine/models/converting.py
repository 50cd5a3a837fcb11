"""From a GGUF file to a folder of plain safetensors with its tokenizer, in a process of its own."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.apart import answered, carried_out, check_package
from engine.settings import SETTINGS

NEEDED = "gguf"


def check_can_convert(name: str) -> None:
    """Refuse before anything is fetched where the package that reads GGUF files is missing.

    Args:
        name: what the model is called.

    Raises:
        ModelError: how to get the package.
    """
    check_package(
        NEEDED, f"{name} comes as a GGUF file here, and the package {NEEDED} that reads it"
    )


def convert(gguf: Path, folder: Path, tell: Callable[[], None], dtype: str = "bfloat16") -> None:
    """Write a GGUF file's model and tokenizer as transformers keeps them.

    bfloat16 takes half the room of float32; what it rounds is far less than four bits did.

    Args:
        gguf: the file.
        folder: takes the result.
        tell: called now and then while it goes on.
        dtype: of the weights: bfloat16 or float32.

    Raises:
        ModelError: the file cannot be read.
        OSError: the disk is full.
    """
    order = {"gguf": str(gguf), "folder": str(folder), "dtype": dtype}
    carried_out("engine.models.converting", order, f"{gguf.name} could not be converted", tell)


def main() -> int:
    """Carry out the order of the standard input; return the exit status."""
    return answered(lambda order: _write(Path(order["gguf"]), order["folder"], order["dtype"]))


def _write(gguf: Path, folder: str, dtype: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    check_room(_values(gguf), folder, dtype)
    where: Any = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**where, local_files_only=True)
    auto: Any = AutoModelForCausalLM
    model, report = auto.from_pretrained(
        **where,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    check_whole(report)
    # The weights are plain by now, and what says otherwise would keep them from being saved.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def check_whole(report: dict[str, Any]) -> None:
    """Refuse weights that lack some, which transformers would fill with random numbers.

    Args:
        report: what it says of a model that it has loaded.
    """
    missing = sorted(map(str, (*report["missing_keys"], *report["mismatched_keys"])))
    if missing:
        raise ModelError(f"it lacks the weights {missing[0]}")


def _values(gguf: Path) -> int:
    """Return how many values a file's weights hold."""
    from gguf import GGUFReader

    try:
        return sum(int(tensor.n_elements) for tensor in GGUFReader(gguf).tensors)
    except Exception:  # the file may break any rule of its format
        raise ModelError("the file is damaged or was cut off") from None


def check_room(values: int, folder: str, dtype: str) -> None:
    """Refuse what has no room in memory in any dtype, or none on the disk.

    Args:
        values: of the model that is made.
        folder: takes it.
        dtype: of its weights: bfloat16 or float32.

    Raises:
        ModelError: what it needs in memory.
        OSError: the disk is too full.
    """
    budget, least = SETTINGS.max_model_memory_gb, 2 * values / 1e9
    if least > budget:
        raise ModelError(
            f"it needs {least:.1f} GB of memory as bfloat16; at most {budget:g} GB are for models here"
        )
    if shutil.disk_usage(folder).free < values * (4 if dtype == "float32" else 2):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


if __name__ == "__main__":
    sys.exit(main())
