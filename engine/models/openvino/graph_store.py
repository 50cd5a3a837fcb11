"""Store of converted graphs: one build for each content of a model's files, backend and OpenVINO version."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

from engine.declare.weights import EIGHT_BITS
from engine.errors import ModelError
from engine.messages import Message
from engine.models import files, sizes
from engine.models.build_cache import Build, build_once
from engine.models.openvino.graph_conversion import MEASUREMENTS_FILE, conversion_refusal
from engine.models.openvino.installation import (
    INSTALL_COMMAND,
    PACKAGE,
    converter_version,
    is_installed,
)
from engine.models.shared_work import ByteProgress
from engine.sources.build_key import BuildFiles, find_build
from engine.sources.catalogue import SOURCE_FILE, install_path


def graph_build_files(folder: str, backend: str) -> BuildFiles:
    """Return the files whose content decides a model's graph, labelled with backend and versions."""
    place = Path(folder)
    paths = [place / "config.json", *sorted(place.glob("*.safetensors"))]
    return {f"{path.name} for {backend} by {converter_version()}": path for path in paths}


def find_graph(folder: str, backend: str) -> Path | None:
    """Return the folder of a model's graph, None if it is not built yet."""
    return find_build(graph_build_files(folder, backend))


def ensure_graph(
    name: str,
    folder: str,
    backend: str,
    cancelled: threading.Event | None = None,
    tell: ByteProgress | None = None,
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
    sources = graph_build_files(folder, backend)
    found = find_build(sources)
    if found is not None:
        return found
    check_convertible(name, folder, backend)
    build = Build(
        name,
        sources,
        job="engine.models.openvino.graph_conversion",
        order={
            "model": folder,
            "values": sizes.count_values(name, folder),
            "eight_bits": backend == EIGHT_BITS,
        },
        failure=Message("{name} cannot be converted for {backend}", name=name, backend=backend),
        about={PACKAGE: converter_version(), "backend": backend, "of": folder},
        check=files.check_config,
    )
    folder_name, _ = build_once(build, cancelled, tell)
    _remove_stale_graphs(folder, backend, Path(folder_name))
    return Path(folder_name)


def check_convertible(name: str, folder: str, backend: str) -> None:
    """Check, before anything is run, that a model can be converted.

    Raises:
        ModelError: naming the model and the reason.
    """
    from engine.models.meta_model import build_meta_model

    if not is_installed():
        raise ModelError(
            "backend = {backend} needs the package {package}: {how} brings it.",
            backend=backend,
            package=PACKAGE,
            how=INSTALL_COMMAND,
        )
    config = files.check_folder(folder)
    reason = conversion_refusal(build_meta_model(name, folder, config)[1])
    if config.get("quantization_config"):
        reason = "its weights are kept quantised"
    if reason is not None:
        raise ModelError(
            "{name} cannot be converted for {backend}: {why}.",
            name=name,
            backend=backend,
            why=reason,
        )


def _remove_stale_graphs(folder: str, backend: str, current: Path) -> None:
    """Remove stale graphs: built by other versions, or from earlier files of this folder."""
    for path in install_path("made").glob(f"*/{SOURCE_FILE}"):
        try:
            about = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if not isinstance(about, dict) or PACKAGE not in about or path.parent == current:
            continue
        same = (about.get("of"), about.get("backend")) == (folder, backend)
        if same or about[PACKAGE] != converter_version():
            shutil.rmtree(path.parent, ignore_errors=True)


def read_measurements(graph: Path) -> dict[str, Any]:
    """Return the measurements stored with a graph; empty if the file is damaged."""
    try:
        found = json.loads((graph / MEASUREMENTS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
