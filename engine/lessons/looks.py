"""What the steps of a lesson's runs looked at: asked once, when the runs are recorded, and kept beside them."""

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
"""``look``, the ``LessonLook`` as JSON values, and ``answer``, the entries of ``asking.looked_values.values_of``."""
_ENDING = ".looked.json.gz"


def looked_file(trace_file: Path) -> Path:
    """Return where what a run looked at is kept, beside the run."""
    return trace_file.with_suffix("").with_suffix(_ENDING)


def looked_at(run: LessonRun, trace: Trace) -> list[Looked]:
    """Ask the model of a run what a lesson wants to know of it.

    Raises:
        EngineError: a step is not there, or the model does not show it.
    """
    if not run.looks:
        return []
    # Who only reads lessons needs no model.
    from engine.asking.looked import Look, looked
    from engine.asking.looked_values import values_of

    found = []
    for look in run.looks:
        if look.step > len(trace.steps):
            raise LessonError(
                f"The run {run.name}: step {look.step} is looked into, and it has {len(trace.steps)}."
            )
        answer = looked(trace, Look(look.step - 1, look.method))
        layer, head = (None if n is None else n - 1 for n in (look.layer, look.head))
        found.append({"look": look.key, "answer": values_of(answer, layer, head)})
    # As it will be read again: tuples are lists.
    return json.loads(json.dumps(found))


def save(looked: Sequence[Looked], trace_file: Path) -> None:
    """Keep what a run looked at; with none there is no file.

    Args:
        looked: as ``looked_at`` returns it.
        trace_file: of the run, as it was recorded with it.
    """
    file = looked_file(trace_file)
    if not looked:
        file.unlink(missing_ok=True)
        return
    data = {"run": _digest(trace_file), "looked": looked}
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def kept(run: LessonRun, trace_file: Path) -> list[Looked]:
    """Return what a run looked at, as it was kept.

    Raises:
        LessonError: it is missing, or was asked of another recording, or other things were asked.
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
