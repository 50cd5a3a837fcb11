"""Store of converted graphs: one build for each content of a model's files, backend and OpenVINO version."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from engine.declare.weights import EIGHT_BITS
from engine.errors import ModelError
from engine.models import files, sizes
from engine.models.build_cache import made_once
from engine.models.build_key import Sources, made_of
from engine.models.catalogue import BROUGHT_FROM, brought_to
from engine.models.hub import Tell
from engine.models.openvino.graph_conversion import MEASURED, refused
from engine.models.openvino.installation import HOW, NEEDED, is_installed, made_by
from engine.models.subprocess_job import carried_out


def sources_of(folder: str, backend: str) -> Sources:
    """Return the files whose content decides a model's graph, labelled with backend and versions."""
    place = Path(folder)
    paths = [place / "config.json", *sorted(place.glob("*.safetensors"))]
    return {f"{path.name} for {backend} by {made_by()}": path for path in paths}


def graph_of(folder: str, backend: str) -> Path | None:
    """Return the folder of a model's graph, None if it is not built yet."""
    return made_of(sources_of(folder, backend))


def converted(
    name: str,
    folder: str,
    backend: str,
    cancelled: threading.Event | None = None,
    tell: Tell | None = None,
) -> Path:
    """Return the folder of a model's graph; convert the model on first use.

    Args:
        name: the model's name.
        folder: the model's folder.
        backend: openvino or openvino-int8.
        cancelled: the conversion stops when this is set.
        tell: called with the bytes hashed so far and their total.

    Raises:
        Cancelled: ``cancelled`` was set.
        ModelError: it cannot be converted, or the disk is full. No partial result stays.
    """
    sources = sources_of(folder, backend)
    found = made_of(sources)
    if found is not None:
        return found
    check_converts(name, folder, backend)
    make = partial(_make, name, folder, backend)
    made, _ = made_once(name, sources, make, cancelled, tell, check=files.check_config)
    _sweep(folder, backend, Path(made))
    return Path(made)


def check_converts(name: str, folder: str, backend: str) -> None:
    """Check, before anything is run, that a model can be converted.

    Raises:
        ModelError: naming the model and the reason.
    """
    from engine.models.meta_model import built

    if not is_installed():
        raise ModelError(f"backend = {backend} needs the package {NEEDED}: {HOW} brings it.")
    config = files.check_folder(folder)
    reason = refused(built(name, folder, config)[1])
    if config.get("quantization_config"):
        reason = "its weights are kept quantised"
    if reason is not None:
        raise ModelError(f"{name} cannot be converted for {backend}: {reason}.")


def _make(
    name: str, folder: str, backend: str, made: Path, own: Path, tell: Callable[[], None]
) -> dict[str, str]:
    del own
    order = {
        "model": folder,
        "folder": str(made),
        "values": sizes.values_in(name, folder),
        "eight_bits": backend == EIGHT_BITS,
    }
    failure = f"{name} cannot be converted for {backend}"
    carried_out("engine.models.openvino.graph_conversion", order, failure, tell)
    return {NEEDED: made_by(), "backend": backend, "of": folder}


def _sweep(folder: str, backend: str, made: Path) -> None:
    """Remove stale graphs: built by other versions, or from earlier files of this folder."""
    for path in brought_to("made").glob(f"*/{BROUGHT_FROM}"):
        try:
            about = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if not isinstance(about, dict) or NEEDED not in about or path.parent == made:
            continue
        same = (about.get("of"), about.get("backend")) == (folder, backend)
        if same or about[NEEDED] != made_by():
            shutil.rmtree(path.parent, ignore_errors=True)


def measured(graph: Path) -> dict[str, Any]:
    """Return the measurements stored with a graph; empty if the file is damaged."""
    try:
        found = json.loads((graph / MEASURED).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
