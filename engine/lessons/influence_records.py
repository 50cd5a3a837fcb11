"""Influence of earlier tokens on the steps of a lesson's runs, stored with the recordings."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.lessons.lesson import LessonError, LessonRun
from engine.program import COMMAND
from engine.trace.records import Trace

InfluenceRecord = Mapping[str, Any]
"""A question ``look`` (``InfluenceQuestion`` as JSON values) and its ``answer`` (entries of
``inspection.influence_values.influence_to_dict``)."""
_FILE_SUFFIX = ".looked.json.gz"


def influence_file(trace_file: Path) -> Path:
    """Return the path of a run's influence file, next to the run's file."""
    return trace_file.with_suffix("").with_suffix(_FILE_SUFFIX)


def measure_influence(run: LessonRun, trace: Trace) -> list[InfluenceRecord]:
    """Compute the answers to a lesson's influence questions about a run.

    Raises:
        EngineError: a step does not exist, or the model cannot answer.
    """
    if not run.looks:
        return []
    # Imported late: reading lessons needs no torch.
    from engine.inspection.influence import InfluenceQuestion, compute_influence
    from engine.inspection.influence_values import influence_to_dict

    found = []
    for look in run.looks:
        if look.step > len(trace.steps):
            raise LessonError(
                "The run {name}: step {step} is looked into, and it has {steps}.",
                name=run.name,
                step=look.step,
                steps=len(trace.steps),
            )
        answer = compute_influence(trace, InfluenceQuestion(look.step - 1, look.method))
        layer, head = (None if n is None else n - 1 for n in (look.layer, look.head))
        found.append({"look": look.key, "answer": influence_to_dict(answer, layer, head)})
    # Through JSON, so that the result equals a loaded one: tuples become lists.
    return json.loads(json.dumps(found))


def save_influence(looked: Sequence[InfluenceRecord], trace_file: Path) -> None:
    """Write the influence file of a run; without answers an existing file is deleted.

    Args:
        looked: the answers of ``measure_influence``.
        trace_file: file of the recorded run.
    """
    file = influence_file(trace_file)
    if not looked:
        file.unlink(missing_ok=True)
        return
    data = {"run": _file_sha256(trace_file), "looked": looked}
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # mtime=0: the same answers give the same bytes.
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def load_influence(run: LessonRun, trace_file: Path) -> list[InfluenceRecord]:
    """Load the influence answers of a run.

    Raises:
        LessonError: the file is missing or damaged, or belongs to another recording or questions.
    """
    if not run.looks:
        return []
    file = influence_file(trace_file)
    again = {"name": run.name, "command": f"`{COMMAND} lesson record`", "file": file.name}
    try:
        data = json.loads(gzip.decompress(file.read_bytes()))
        of, looked = data["run"], data["looked"]
        asked = [one["look"] for one in looked]
    except FileNotFoundError:
        raise LessonError(
            "The run {name}: {command} makes {file}, which is not there.", **again
        ) from None
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        raise LessonError(
            "The run {name}: {command} makes {file}; what is there cannot be read.", **again
        ) from None
    if of != _file_sha256(trace_file) or asked != [look.key for look in run.looks]:
        raise LessonError(
            "The run {name}: {command} makes {file}; what is there was asked of something else.",
            **again,
        )
    return looked


def _file_sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
