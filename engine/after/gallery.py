"""Recorded runs that ship with the playground: one file a preset, and an index of them."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import TraceError
from engine.reading.quoted import quoted
from engine.trace import json_io
from engine.trace.records import Trace

_LOG = logging.getLogger("engine")
FOLDER = Path(__file__).resolve().parents[2] / "assets" / "gallery"
INDEX = "index.json"
CANDIDATES = 8
PRESETS = 2
TOKENS = 100
"""Most new tokens of a recorded run, enough for what a preset's sentence speaks of."""
_ENDING = ".json.gz"


@dataclass(frozen=True)
class GalleryEntry:
    """One recorded run of the gallery."""

    file: str
    strategy: str
    preset: str
    """Name of the strategy's preset that was recorded."""
    title: str
    shows: str
    """One sentence: what to look at."""
    look_at: int
    """Number, from 1, of the step that shows it."""
    figures: dict[str, float] = field(default_factory=dict)
    """What a sentence may quote of it, see ``engine.reading.quoted``."""

    @property
    def name(self) -> str:
        """What a link calls the run."""
        return self.file.removesuffix(_ENDING)


def entries(folder: Path = FOLDER) -> list[GalleryEntry]:
    """Return what the gallery holds, empty when none was made or its index is damaged."""
    path = folder / INDEX
    if not path.is_file():
        return []
    try:
        return [GalleryEntry(**item) for item in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        _LOG.error("the index of the gallery is damaged: %s", type(error).__name__)
        return []


def entry_named(name: str, folder: Path = FOLDER) -> GalleryEntry | None:
    """Return the entry that a link calls so, None when there is none."""
    return next((entry for entry in entries(folder) if entry.name == name), None)


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
    for old in folder.glob(f"*{_ENDING}"):
        old.unlink()
    made = []
    for strategy in STRATEGIES.values():
        for number, preset in enumerate(strategy.presets[:PRESETS]):
            file = f"{strategy.name}-{number + 1}{_ENDING}"
            if not number:
                record(strategy.name, preset)  # the second time nothing is loaded any more
            trace = record(strategy.name, preset)
            json_io.save(trace, folder / file)
            title = f"{strategy.title}: {preset.name}"
            about = strategy.name, preset.name, title, preset.shows, preset.look_at
            made.append(GalleryEntry(file, *about, quoted(trace)))
    write_index(made, folder)
    return made


def write_index(made: list[GalleryEntry], folder: Path = FOLDER) -> None:
    """Write what the gallery holds."""
    text = json.dumps([vars(entry) for entry in made], ensure_ascii=False, indent=1)
    (folder / INDEX).write_text(text + "\n")


def record(strategy: str, preset: Any) -> Trace:
    """Run a preset on the embedded models, no longer than the gallery's runs are.

    Raises:
        EngineError: the run failed.
    """
    params = dict(preset.params)
    params["max_new_tokens"] = min(TOKENS, params.get("max_new_tokens", TOKENS))
    return recorded(strategy, preset.prompt, params, preset.seed, preset.model)


def recorded(
    strategy: str, prompt: str, params: dict[str, Any], seed: int = 0, model: str | None = None
) -> Trace:
    """Run a strategy to its end and keep as many candidates as the gallery does.

    Raises:
        EngineError: the run failed.
    """
    from engine.run.decoding import decode
    from engine.run.request import DecodeRequest
    from engine.trace.events import Failed, Finished

    last = None
    request = DecodeRequest(
        strategy, model, prompt, params=params, seed=seed, top_candidates=CANDIDATES
    )
    for event in decode(request):
        last = event
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return last.trace
