"""Convert a GGUF file to a folder of safetensors and tokenizer files, in a subprocess."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.models.model_types import LoadingReport
from engine.models.subprocess_job import check_package, handle_job, run_job
from engine.settings import SETTINGS

PACKAGE = "gguf"


def check_can_convert(name: str) -> None:
    """Check, before anything is fetched, that the package that reads GGUF files is installed.

    Args:
        name: the model's name.

    Raises:
        ModelError: the package is missing; the message says how to install it.
    """
    check_package(
        PACKAGE,
        Message(
            "{name} comes as a GGUF file here, and the package {package} that reads it",
            name=name,
            package=PACKAGE,
        ),
    )


def convert_gguf(
    gguf: Path, folder: Path, tell: Callable[[], None], dtype: str = "bfloat16"
) -> None:
    """Write a GGUF file's model and tokenizer in transformers' format.

    bfloat16 halves the size of float32 and rounds far less than 4-bit quantisation did.

    Args:
        gguf: the file.
        folder: where the result is written.
        tell: called regularly while the job runs.
        dtype: dtype of the weights: bfloat16 or float32.

    Raises:
        ModelError: the file cannot be read.
        OSError: the disk is full.
    """
    order = {"gguf": str(gguf), "folder": str(folder), "dtype": dtype}
    run_job(
        "engine.models.gguf_conversion",
        order,
        Message("{name} could not be converted", name=gguf.name),
        tell,
    )


def main() -> int:
    """Run the job from standard input; return the exit status."""
    return handle_job(
        lambda order: _convert_job(Path(order["gguf"]), order["folder"], order["dtype"])
    )


def _convert_job(gguf: Path, folder: str, dtype: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    check_resources(_count_values(gguf), folder, dtype)
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
    check_weights_complete(report)
    # Both attributes stay after dequantising and would make save_pretrained fail.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def check_weights_complete(report: LoadingReport) -> None:
    """Check that no weights are missing.

    transformers fills missing weights with random numbers and only logs it.

    Args:
        report: loading info returned by ``from_pretrained``.

    Raises:
        ModelError: naming the first missing weight.
    """
    missing = sorted(map(str, (*report["missing_keys"], *report["mismatched_keys"])))
    if missing:
        raise ModelError("it lacks the weights {name}", name=missing[0])


def _count_values(gguf: Path) -> int:
    """Count the values of a file's weights."""
    from gguf import GGUFReader

    try:
        return sum(int(tensor.n_elements) for tensor in GGUFReader(gguf).tensors)
    except Exception:  # the file may break any rule of its format
        raise ModelError("the file is damaged or was cut off") from None


def check_resources(values: int, folder: str, dtype: str) -> None:
    """Check that a converted model fits in memory (as bfloat16) and on the disk.

    Args:
        values: number of its weights' values.
        folder: where it will be written.
        dtype: dtype of its weights: bfloat16 or float32.

    Raises:
        ModelError: it does not fit in the memory budget.
        OSError: the disk is too full.
    """
    budget, least = SETTINGS.max_model_memory_gb, 2 * values / 1e9
    if least > budget:
        raise ModelError(
            "it needs {least} GB of memory as bfloat16; at most {most} GB are for models here",
            least=f"{least:.1f}",
            most=f"{budget:g}",
        )
    if shutil.disk_usage(folder).free < values * (4 if dtype == "float32" else 2):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


if __name__ == "__main__":
    sys.exit(main())
