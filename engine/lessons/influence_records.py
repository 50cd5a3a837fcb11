"""Influence of earlier tokens on the steps of a lesson's runs, stored with the recordings."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.lessons.lesson import LessonError, LessonRun
from engine.trace.records import Trace

Looked = Mapping[str, Any]
"""A question ``look`` (``LessonLook`` as JSON values) and its ``answer`` (entries of
``asking.looked_values.values_of``)."""
_ENDING = ".looked.json.gz"


def looked_file(trace_file: Path) -> Path:
    """Return the path of a run's influence file, next to the run's file."""
    return trace_file.with_suffix("").with_suffix(_ENDING)


def looked_at(run: LessonRun, trace: Trace) -> list[Looked]:
    """Compute the answers to a lesson's influence questions about a run.

    Raises:
        EngineError: a step does not exist, or the model cannot answer.
    """
    if not run.looks:
        return []
    # Imported late: reading lessons needs no torch.
    from engine.inspection.influence import Look, looked
    from engine.inspection.influence_values import values_of

    found = []
    for look in run.looks:
        if look.step > len(trace.steps):
            raise LessonError(
                f"The run {run.name}: step {look.step} is looked into, and it has {len(trace.steps)}."
            )
        answer = looked(trace, Look(look.step - 1, look.method))
        layer, head = (None if n is None else n - 1 for n in (look.layer, look.head))
        found.append({"look": look.key, "answer": values_of(answer, layer, head)})
    # Through JSON, so that the result equals a loaded one: tuples become lists.
    return json.loads(json.dumps(found))


def save(looked: Sequence[Looked], trace_file: Path) -> None:
    """Write the influence file of a run; without answers an existing file is deleted.

    Args:
        looked: the answers of ``looked_at``.
        trace_file: file of the recorded run.
    """
    file = looked_file(trace_file)
    if not looked:
        file.unlink(missing_ok=True)
        return
    data = {"run": _digest(trace_file), "looked": looked}
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # mtime=0: the same answers give the same bytes.
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def kept(run: LessonRun, trace_file: Path) -> list[Looked]:
    """Load the influence answers of a run.

    Raises:
        LessonError: the file is missing or damaged, or belongs to another recording or questions.
    """
    if not run.looks:
        return []
    file = looked_file(trace_file)
    again = f"The run {run.name}: `python -m engine lesson record` makes {file.name}"
    try:
        data = json.loads(gzip.decompress(file.read_bytes()))
        of, looked = data["run"], data["looked"]
        asked = [one["look"] for one in looked]
    except FileNotFoundError:
        raise LessonError(f"{again}, which is not there.") from None
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        raise LessonError(f"{again}; what is there cannot be read.") from None
    if of != _digest(trace_file) or asked != [look.key for look in run.looks]:
        raise LessonError(f"{again}; what is there was asked of something else.")
    return looked


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
