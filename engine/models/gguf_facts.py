"""Read the header of a GGUF file in a subprocess, without its weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.messages import Message
from engine.models.subprocess_job import handle_job, run_job

TIMEOUT_S = 120.0
"""Longest wait for a header, in seconds: a large vocabulary takes seconds, a busy machine longer."""
_MAX_CHARS = 60


@dataclass(frozen=True)
class GgufFacts:
    """Facts from the header of a GGUF file.

    Attributes:
        architecture: name in the file.
        file_bytes: size of the file.
        values: number of values in its weights.
        types: tensor type, such as Q4_K -> share of the values of that type, largest first.
        context_length: trained context in positions, None if missing.
        chat_template: whether it has one.
        licence: name in the file, None if missing.
        problem: why transformers cannot build a configuration; None if it can or was not asked to.
    """

    architecture: str
    file_bytes: int
    values: int
    types: dict[str, float]
    context_length: int | None
    chat_template: bool
    licence: str | None
    problem: str | None = None


def read_gguf_facts(name: str, into: str | None = None) -> GgufFacts:
    """Read a GGUF file's header.

    Args:
        name: the file's absolute path.
        into: folder for the config.json that transformers derives from it; None to skip that.

    Raises:
        ModelError: the file cannot be read.
    """
    failure = Message("{name} could not be read", name=Path(name).name)
    order = {"gguf": name, "into": into}
    job = "engine.models.gguf_facts"
    try:
        return GgufFacts(**run_job(job, order, failure=failure, limit_s=TIMEOUT_S))
    except TimeoutError:
        raise ModelError(
            "{failure}: {why}.", failure=failure, why="it ended before it was done"
        ) from None
    except OSError as error:
        raise ModelError("{failure}: {why}.", failure=failure, why=error.strerror) from None


def _read_header(order: dict[str, Any]) -> dict[str, Any]:
    from gguf import GGUFReader

    path, into = Path(order["gguf"]), order["into"]

    try:
        reader = GGUFReader(path)
        kinds: Counter[str] = Counter()
        for tensor in reader.tensors:
            kinds[tensor.tensor_type.name] += int(tensor.n_elements)
        # Lists, such as the vocabulary, have many parts and are no facts to show.
        fields = {name: field for name, field in reader.fields.items() if len(field.data) == 1}
        architecture = fields["general.architecture"].contents()
    except Exception:  # the file may break any rule of its format
        raise ModelError("the file is damaged or was cut off") from None

    def read_field(name: str) -> Any:
        return fields[name].contents() if name in fields else None

    values, context = sum(kinds.values()), read_field(f"{architecture}.context_length")
    return {
        "architecture": str(architecture)[:_MAX_CHARS],
        "file_bytes": path.stat().st_size,
        "values": values,
        "types": {kind: count / max(values, 1) for kind, count in kinds.most_common()},
        "context_length": int(context) if isinstance(context, int) and context > 0 else None,
        "chat_template": bool(read_field("tokenizer.chat_template")),
        "licence": str(read_field("general.license"))[:_MAX_CHARS]
        if read_field("general.license")
        else None,
        "problem": None if into is None else _write_config(path, into),
    }


def _write_config(path: Path, into: str) -> str | None:
    """Write the config.json of the file's model; return the problem if that fails."""
    from transformers import AutoConfig

    try:
        # With gguf_file given, another model's config.json in the same folder is not read.
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
        config.save_pretrained(into)
    except Exception as error:  # transformers supports only some architectures
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Message(
            "{name} cannot be converted: {why}.", name=path.name, why=reason.rstrip(" .!")[:200]
        )
    return None


if __name__ == "__main__":
    handle_job(_read_header)
