"""Convert a GGUF file to a folder of safetensors and tokenizer files, in a subprocess."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.models.build_cache import Build, build_once
from engine.models.model_types import LoadingReport
from engine.models.shared_work import ByteProgress
from engine.models.subprocess_job import check_package, handle_job, run_job
from engine.settings import SETTINGS
from engine.sources.source import Gguf

PACKAGE = "gguf"
_JOB = "engine.models.gguf_conversion"


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


def ensure_gguf_converted(
    source: Gguf, cancelled: threading.Event | None = None, tell: ByteProgress | None = None
) -> tuple[str, str]:
    """Return the folder and sha256 of a GGUF file's model; convert it on first use.

    The weights are float32, exactly what transformers reads. bfloat16 would round files of 8 bits and more.

    Args:
        source: the file.
        cancelled: the build stops when this is set.
        tell: called with the bytes hashed so far and the file's size.

    Raises:
        Cancelled: ``cancelled`` was set.
        ModelError: the file cannot be read, or the disk is full. No partial result stays.
    """
    name = source.name
    if source.folder() is None:
        check_can_convert(name)
    build = Build(
        name,
        source.build_files(),
        job=_JOB,
        order={"gguf": str(Path(name).resolve()), "dtype": "float32"},
        failure=_failure(name),
        about={"gguf": name},
    )
    return build_once(build, cancelled, tell)


def convert_gguf(gguf: Path, folder: Path, tell: Callable[[], None]) -> None:
    """Write the model and tokenizer of a GGUF file that is alone in its folder.

    The weights are bfloat16, which halves the size of float32 and rounds far less than 4-bit quantisation did.

    Args:
        gguf: the file.
        folder: where the result is written.
        tell: called regularly while the job runs.

    Raises:
        ModelError: the file cannot be read.
        OSError: the disk is full.
    """
    order = {"gguf": str(gguf), "dtype": "bfloat16", "folder": str(folder), "own": str(gguf.parent)}
    run_job(_JOB, order, lambda _: tell(), failure=_failure(gguf.name))


def _failure(name: str) -> str:
    return Message("{name} could not be converted", name=Path(name).name)


def _convert_job(order: dict[str, Any]) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Linked into an empty folder: a tokenizer next to the file would win over the file's own.
    gguf = Path(order["own"]) / Path(order["gguf"]).name
    if not gguf.exists():
        gguf.symlink_to(order["gguf"])
    folder, dtype = order["folder"], order["dtype"]
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
    # Dequantised in float32 above and rounded only here.
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
    handle_job(_convert_job)
