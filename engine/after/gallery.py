"""Recorded runs that ship with the playground: one file a preset, and an index of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import TraceError
from engine.trace import json_io
from engine.trace.records import Trace

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "gallery"
INDEX = "index.json"
CANDIDATES = 8
PRESETS = 2
TOKENS = 40
"""Most new tokens of a recorded run: the gallery is for a first look, and small."""


@dataclass(frozen=True)
class GalleryEntry:
    """One recorded run of the gallery."""

    file: str
    strategy: str
    title: str
    shows: str
    """One sentence: what to look at."""


def entries(folder: Path = FOLDER) -> list[GalleryEntry]:
    """Return what the gallery holds, empty when none was made."""
    path = folder / INDEX
    if not path.is_file():
        return []
    return [GalleryEntry(**item) for item in json.loads(path.read_text())]


def open_entry(file: str, folder: Path = FOLDER) -> Trace:
    """Read one recorded run.

    Raises:
        TraceError: the gallery has no such file.
    """
    if file not in {entry.file for entry in entries(folder)}:
        raise TraceError(f"The gallery has no run named {file[:60]!r}.")
    return json_io.load(folder / file)


def make(folder: Path) -> list[GalleryEntry]:
    """Record the first presets of every strategy and write them with an index.

    Raises:
        EngineError: a preset does not run.
    """
    from engine.strategies import STRATEGIES

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json.gz"):
        old.unlink()
    made = []
    for strategy in STRATEGIES.values():
        for number, preset in enumerate(strategy.presets[:PRESETS]):
            file = f"{strategy.name}-{number + 1}.json.gz"
            if not number:
                record(strategy.name, preset)  # the second time nothing is loaded any more
            json_io.save(record(strategy.name, preset), folder / file)
            made.append(
                GalleryEntry(file, strategy.name, f"{strategy.title}: {preset.name}", preset.shows)
            )
    text = json.dumps([vars(entry) for entry in made], ensure_ascii=False, indent=1)
    (folder / INDEX).write_text(text + "\n")
    return made


def record(strategy: str, preset: Any) -> Trace:
    """Run a preset on the embedded models, no longer than the gallery's runs are.

    Raises:
        EngineError: the run failed.
    """
    from engine.run.decoding import decode
    from engine.run.request import DecodeRequest
    from engine.trace.events import Failed, Finished

    params = dict(preset.params)
    params["max_new_tokens"] = min(TOKENS, params.get("max_new_tokens", TOKENS))
    last = None
    request = DecodeRequest(
        strategy,
        preset.model,
        preset.prompt,
        params=params,
        seed=preset.seed,
        top_candidates=CANDIDATES,
    )
    for event in decode(request):
        last = event
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return last.trace
