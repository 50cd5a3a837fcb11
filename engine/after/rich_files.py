"""transformers' outputs of a run in a safetensors file, and back.

A tensor's name says where it stands in the output object: ``scores.0``, ``hidden_states.3.layer.2``,
``encoder_attentions.layer.1``; the first number is that of the step, from 0. What is no tensor, the cache, is
left out. The metadata tell what made them.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from engine.after.rich_flags import RichFlags
from engine.errors import EngineError
from engine.run.recording import versions
from engine.trace.records import Trace

FORMAT = "transformers-generate-output/1"
CLASSES = (
    "GenerateDecoderOnlyOutput",
    "GenerateEncoderDecoderOutput",
    "GenerateBeamDecoderOnlyOutput",
    "GenerateBeamEncoderDecoderOutput",
)
WHOLE = ("sequences", "sequences_scores", "beam_indices")
"""Fields that are one tensor."""
OF_THE_ENCODER = ("encoder_attentions", "encoder_hidden_states")
"""Fields without steps: one tensor a layer."""
_NAME = re.compile(r"(\w+?)(?:\.(\d{1,6}))?(?:\.layer\.(\d{1,4}))?")


class RichFileError(EngineError):
    """A file holds no outputs of generate(); the message says what is wrong."""

    code = "rich"


def rich_metadata(trace: Trace, flags: RichFlags) -> dict[str, str]:
    """Return what a file says of its outputs, all of it text.

    Args:
        trace: the run.
        flags: that were set.

    Returns:
        ``strategy``, ``config`` (JSON), ``seed``, ``model``, ``revision``, ``dtype``, ``device``, ``versions``
        (JSON, of whoever made the outputs), ``recorded_with`` (JSON, of the run), ``flags`` (JSON) and
        ``prompt_ids`` (JSON).
    """
    model, assistant = trace.model, trace.assistant
    told = {
        "strategy": trace.strategy,
        "config": _json({name: v for name, v in trace.config.items() if v is not None}),
        "seed": str(trace.seed),
        "model": model.id,
        "revision": model.revision or "",
        "dtype": model.dtype,
        "device": model.device,
        "versions": _json(versions()),
        "recorded_with": _json(trace.versions),
        "flags": _json(asdict(flags)),
        "prompt_ids": _json(list(trace.prompt_ids)),
    }
    if assistant is not None:
        told |= {"assistant": assistant.id, "assistant_revision": assistant.revision or ""}
    return told


def rich_bytes(output: Any, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return outputs of generate() as the bytes of a safetensors file.

    Args:
        output: as generate() or ``rich_output`` returns it.
        metadata: see ``rich_metadata``; texts by name.

    Raises:
        RichFileError: it is another object.
    """
    from safetensors.torch import save

    tensors = dict(_tensors(output))
    return save(tensors, metadata=_described(output, metadata))


def save_rich(output: Any, path: str | Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write outputs of generate() into a file, whole or not at all.

    Args:
        output: see ``rich_bytes``.
        path: of the file; one that is there is replaced.
        metadata: see ``rich_bytes``.

    Raises:
        RichFileError: it is another object, or the file cannot be written.
    """
    target, data = Path(path), rich_bytes(output, metadata)
    partial = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise RichFileError(f"{target.name} could not be written: {error.strerror}.") from None


def load_rich(path: str | Path) -> Any:
    """Return the output object that a file holds: the same class, the same tensors, without a cache.

    Args:
        path: of a file that ``save_rich`` wrote.

    Raises:
        RichFileError: it is no such file.
    """
    metadata, tensors = _read(Path(path))
    kind = metadata.get("class", "")
    if metadata.get("format") != FORMAT or kind not in CLASSES:
        raise RichFileError(f"{Path(path).name} holds no outputs of generate() as {FORMAT}.")
    fields: dict[str, Any] = {}
    steps: dict[str, dict[tuple[int, ...], Any]] = {}
    for name, tensor in tensors.items():
        field, *places = _place(name)
        if places:
            steps.setdefault(field, {})[tuple(places)] = tensor
        else:
            fields[field] = tensor
    import transformers.generation

    try:
        nested = {field: _nested(found) for field, found in steps.items()}
        return getattr(transformers.generation, kind)(**fields, **nested)
    except (TypeError, KeyError):
        raise RichFileError(f"{Path(path).name} has tensors that a {kind} has not.") from None


def metadata_of(path: str | Path) -> dict[str, str]:
    """Return what a file says of its outputs, see ``rich_metadata``; nothing of them is read.

    Raises:
        RichFileError: it is no safetensors file.
    """
    return _read(Path(path), tensors=False)[0]


def described(kind: str, metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return the metadata of a file that holds an object of a class."""
    return {"format": FORMAT, "class": kind, **(metadata or {})}


def _described(output: Any, metadata: Mapping[str, str] | None) -> dict[str, str]:
    kind = type(output).__name__
    if kind not in CLASSES:
        raise RichFileError(
            f"A {kind} is no output of generate(): it must be a {CLASSES[0]} or alike."
        )
    return described(kind, metadata)


def _tensors(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor with its name; each in memory of its own, since steps may share theirs."""
    _described(output, None)
    for field, value in output.items():
        if field in WHOLE:
            yield field, _own(value)
        elif field in OF_THE_ENCODER:
            yield from _layers(field, value)
        elif isinstance(value, tuple):
            for step, found in enumerate(value):
                if isinstance(found, torch.Tensor):
                    yield f"{field}.{step}", _own(found)
                else:
                    yield from _layers(f"{field}.{step}", found or ())


def _layers(name: str, layers: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for layer, tensor in enumerate(layers):
        if tensor is not None:
            yield f"{name}.layer.{layer}", _own(tensor)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)


def _read(path: Path, tensors: bool = True) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys() if tensors else ()
            found = {name: file.get_tensor(name) for name in names}
            return dict(file.metadata() or {}), found
    except (SafetensorError, OSError):
        raise RichFileError(f"{path.name} is no safetensors file that can be read.") from None


def _place(name: str) -> tuple[Any, ...]:
    """Return the field of a tensor's name and its numbers.

    Raises:
        RichFileError: it is no name of ours.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise RichFileError(f"{name[:60]!r} is no name of a tensor of generate()'s outputs.")
    return found[1], *(int(number) for number in found.groups()[1:] if number is not None)


def _nested(found: dict[tuple[int, ...], Any], gaps: bool = False) -> tuple[Any, ...]:
    """Return tensors by their numbers as nested tuples.

    Args:
        found: the tensors.
        gaps: whether None stands for what is missing: a layer need not show anything.

    Raises:
        KeyError: a step is missing, or numbers are of two kinds.
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
    return tuple(_nested(steps[at], gaps=True) for at in range(count))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
