"""Save transformers' outputs of a run to a safetensors file and load them.

A tensor's name gives its position in the output object: ``scores.0``, ``hidden_states.3.layer.2``,
``encoder_attentions.layer.1``. The first number is the step, from 0. The cache is not saved. The
metadata describe the run and the software.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# safetensors has no types for an open file.
from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from engine.analysis.generate_outputs_flags import OutputFlags
from engine.errors import EngineError
from engine.models.model_types import Outputs
from engine.run.recording import library_versions
from engine.trace.records import Trace

FORMAT = "transformers-generate-output/1"
OUTPUT_CLASSES = (
    "GenerateDecoderOnlyOutput",
    "GenerateEncoderDecoderOutput",
    "GenerateBeamDecoderOnlyOutput",
    "GenerateBeamEncoderDecoderOutput",
)
SINGLE_TENSOR_FIELDS = ("sequences", "sequences_scores", "beam_indices")
"""Fields that hold a single tensor."""
ENCODER_FIELDS = ("encoder_attentions", "encoder_hidden_states")
"""Fields without steps: one tensor for each layer."""
# Few digits, because _nest_tensors makes tuples as long as the largest number.
_TENSOR_NAME = re.compile(r"(\w+?)(?:\.(\d{1,6}))?(?:\.layer\.(\d{1,4}))?")


class OutputFileError(EngineError):
    """A file does not hold outputs of generate(); the message gives the reason."""

    code = "rich"


def output_metadata(trace: Trace, flags: OutputFlags) -> dict[str, str]:
    """Return the metadata of an output file; all values are text.

    Args:
        trace: the run.
        flags: the flags of the outputs.

    Returns:
        ``strategy``, ``config`` (JSON), ``seed``, ``model``, ``revision``, ``dtype``, ``device``,
        ``versions`` (JSON, of the software that produced the outputs), ``recorded_with`` (JSON, of
        the software that recorded the run), ``flags`` (JSON) and ``prompt_ids`` (JSON).
    """
    model, assistant = trace.model, trace.assistant
    told = {
        "strategy": trace.strategy,
        "config": _to_json({name: v for name, v in trace.config.items() if v is not None}),
        "seed": str(trace.seed),
        "model": model.id,
        "revision": model.revision or "",
        "dtype": model.dtype,
        "device": model.device,
        "versions": _to_json(library_versions()),
        "recorded_with": _to_json(trace.versions),
        "flags": _to_json(asdict(flags)),
        "prompt_ids": _to_json(list(trace.prompt_ids)),
    }
    if assistant is not None:
        told |= {"assistant": assistant.id, "assistant_revision": assistant.revision or ""}
    return told


def output_to_bytes(output: Outputs, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return outputs of generate() as the bytes of a safetensors file.

    Args:
        output: an output object of generate() or ``rerun_generate``.
        metadata: text values by name, see ``output_metadata``.

    Raises:
        OutputFileError: `output` is of another class.
    """
    from safetensors.torch import save

    tensors = dict(_named_tensors(output))
    return save(tensors, metadata=_checked_file_metadata(output, metadata))


def save_output(
    output: Outputs, path: str | Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write outputs of generate() to a file, completely or not at all.

    Args:
        output: see ``output_to_bytes``.
        path: the file; an existing one is replaced.
        metadata: see ``output_to_bytes``.

    Raises:
        OutputFileError: `output` is of another class, or the file cannot be written.
    """
    target, data = Path(path), output_to_bytes(output, metadata)
    partial = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        # A rename is atomic, so that no reader sees half a file.
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise OutputFileError(
            "{folder} could not be written: {error}.", folder=target.name, error=error.strerror
        ) from None


def load_output(path: str | Path) -> Any:
    """Load the output object of a file: the same class and tensors, without the cache.

    Args:
        path: a file written by ``save_output``.

    Raises:
        OutputFileError: the file has another format.
    """
    metadata, tensors = _read_file(Path(path))
    kind = metadata.get("class", "")
    if metadata.get("format") != FORMAT or kind not in OUTPUT_CLASSES:
        raise OutputFileError(
            "{name} holds no outputs of generate() as {format}.",
            name=Path(path).name,
            format=FORMAT,
        )
    fields: dict[str, Any] = {}
    steps: dict[str, dict[tuple[int, ...], Any]] = {}
    for name, tensor in tensors.items():
        field, *places = _parse_tensor_name(name)
        if places:
            steps.setdefault(field, {})[tuple(places)] = tensor
        else:
            fields[field] = tensor
    import transformers.generation

    try:
        nested = {field: _nest_tensors(found) for field, found in steps.items()}
        return getattr(transformers.generation, kind)(**fields, **nested)
    except (TypeError, KeyError):
        raise OutputFileError(
            "{name} has tensors that a {kind} has not.", name=Path(path).name, kind=kind
        ) from None


def _checked_file_metadata(output: Outputs, metadata: Mapping[str, str] | None) -> dict[str, str]:
    kind = type(output).__name__
    if kind not in OUTPUT_CLASSES:
        raise OutputFileError(
            "A {kind} is no output of generate(): it must be a {expected} or alike.",
            kind=kind,
            expected=OUTPUT_CLASSES[0],
        )
    return {"format": FORMAT, "class": kind, **(metadata or {})}


def _named_tensors(output: Outputs) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, copy) of every tensor."""
    _checked_file_metadata(output, None)
    fields: dict[str, Any] = {**output}
    for field, value in fields.items():
        if field in SINGLE_TENSOR_FIELDS:
            yield field, _copy_to_cpu(value)
        elif field in ENCODER_FIELDS:
            yield from _named_layers(field, value)
        elif isinstance(value, tuple):
            steps: tuple[Any, ...] = value
            for step, found in enumerate(steps):
                if isinstance(found, torch.Tensor):
                    yield f"{field}.{step}", _copy_to_cpu(found)
                else:
                    yield from _named_layers(f"{field}.{step}", found or ())


def _named_layers(name: str, layers: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for layer, tensor in enumerate(layers):
        if tensor is not None:
            yield f"{name}.layer.{layer}", _copy_to_cpu(tensor)


def _copy_to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    # Steps may share memory, which safetensors refuses to save.
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)


def _read_file(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            names: Iterable[str] = file.keys()
            found: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in names}
            metadata: dict[str, str] = file.metadata() or {}
            return metadata, found
    except (SafetensorError, OSError):
        raise OutputFileError(
            "{name} is no safetensors file that can be read.", name=path.name
        ) from None


def _parse_tensor_name(name: str) -> tuple[Any, ...]:
    """Return the field in a tensor's name, followed by its numbers.

    Raises:
        OutputFileError: the name has another form.
    """
    found = _TENSOR_NAME.fullmatch(name)
    if found is None:
        raise OutputFileError(
            "{name} is no name of a tensor of generate()'s outputs.", name=repr(name[:60])
        )
    return found[1], *(int(number) for number in found.groups()[1:] if number is not None)


def _nest_tensors(found: dict[tuple[int, ...], Any], gaps: bool = False) -> tuple[Any, ...]:
    """Return numbered tensors as nested tuples.

    Args:
        found: numbers -> tensor.
        gaps: whether a missing layer becomes None; layers may have no hidden state or attention.

    Raises:
        KeyError: a step is missing, or the keys have different lengths.
    """
    if len({len(place) for place in found}) != 1:
        raise KeyError
    count = 1 + max(place[0] for place in found)
    if len(next(iter(found))) == 1:
        if not gaps and count != len(found):
            raise KeyError
        return tuple(found.get((at,)) for at in range(count))
    steps: dict[int, dict[tuple[int, ...], Any]] = {}
    for (step, *rest), tensor in found.items():
        steps.setdefault(step, {})[tuple(rest)] = tensor
    if count != len(steps):
        raise KeyError
    return tuple(_nest_tensors(steps[at], gaps=True) for at in range(count))


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
