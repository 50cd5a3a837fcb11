"""What the header of a GGUF file says, read in a process of its own; no weights are read."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.apart import answered, carried_out

LIMIT_S = 120.0
"""Longest wait for a header: a large vocabulary takes seconds, a busy machine longer."""
_MOST_WORDS = 60


@dataclass(frozen=True)
class GgufFacts:
    """What a GGUF file says of itself.

    Attributes:
        architecture: as the file calls it.
        file_bytes: of the file.
        values: how many its weights hold.
        types: type of its tensors, such as Q4_K -> share of the values that are kept so, largest first.
        context_length: positions it was made for, None where it does not say.
        chat_template: whether it has one.
        licence: as it names it, None where it names none.
        problem: why transformers can make no configuration of it, None where it can or was not asked.
    """

    architecture: str
    file_bytes: int
    values: int
    types: dict[str, float]
    context_length: int | None
    chat_template: bool
    licence: str | None
    problem: str | None = None


def look_into(name: str, into: str | None = None) -> GgufFacts:
    """Return what a GGUF file says of itself.

    Args:
        name: the file's absolute path.
        into: a folder for the config.json that transformers makes of it, None for none.

    Raises:
        ModelError: it cannot be read.
    """
    failure = f"{Path(name).name} could not be read"
    order = {"gguf": name, "into": into}
    try:
        return GgufFacts(
            **carried_out("engine.models.gguf_facts", order, failure, lambda: None, LIMIT_S)
        )
    except OSError as error:
        raise ModelError(f"{failure}: {error.strerror}.") from None


def main() -> int:
    """Carry out the order of the standard input; return the exit status."""
    return answered(lambda order: _facts(Path(order["gguf"]), order["into"]))


def _facts(path: Path, into: str | None) -> dict[str, Any]:
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        kinds: Counter[str] = Counter()
        for tensor in reader.tensors:
            kinds[tensor.tensor_type.name] += int(tensor.n_elements)
        fields = {name: field for name, field in reader.fields.items() if len(field.data) == 1}
        architecture = fields["general.architecture"].contents()
    except Exception:  # the file may break any rule of its format
        raise ModelError("the file is damaged or was cut off") from None

    def said(name: str) -> Any:
        return fields[name].contents() if name in fields else None

    values, context = sum(kinds.values()), said(f"{architecture}.context_length")
    return {
        "architecture": str(architecture)[:_MOST_WORDS],
        "file_bytes": path.stat().st_size,
        "values": values,
        "types": {kind: count / max(values, 1) for kind, count in kinds.most_common()},
        "context_length": int(context) if isinstance(context, int) and context > 0 else None,
        "chat_template": bool(said("tokenizer.chat_template")),
        "licence": str(said("general.license"))[:_MOST_WORDS] if said("general.license") else None,
        "problem": None if into is None else _problem(path, into),
    }


def _problem(path: Path, into: str) -> str | None:
    """Write the config.json of a file's model; return why there is none."""
    from transformers import AutoConfig

    try:
        # Beside the file may lie another model's configuration, which is not read where the file is named.
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
        config.save_pretrained(into)
    except Exception as error:  # transformers knows some architectures alone
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"{path.name} cannot be converted: {said.rstrip(' .!')[:200]}."
    return None


if __name__ == "__main__":
    sys.exit(main())
