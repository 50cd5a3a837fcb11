"""The gallery of recorded runs: one file for each preset or conversation, and an index."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import TraceError
from engine.statistics.run_figures import quoted
from engine.trace import json_io
from engine.trace.records import Trace

if TYPE_CHECKING:
    from engine.strategies.base import Preset, Strategy
    from engine.strategies.chat_presets import Talk

_LOG = logging.getLogger("engine")
FOLDER = Path(__file__).resolve().parents[2] / "assets" / "gallery"
INDEX = "index.json"
CANDIDATES = 8
PRESETS = 2
TOKENS = 100
"""Most new tokens of a recorded run; enough to show what the presets' sentences describe."""
_ENDING = ".json.gz"


@dataclass(frozen=True)
class GalleryEntry:
    """One recorded run of the gallery."""

    file: str
    strategy: str
    preset: str
    """Name of the recorded preset of the strategy."""
    title: str
    shows: str
    """One sentence: what to look at."""
    look_at: int
    """Number of the step that shows it, from 1."""
    figures: dict[str, float] = field(default_factory=dict)
    """Figures that sentences may quote, see ``engine.statistics.run_figures``."""
    model: str | None = None
    """Model of a conversation (``engine.strategies.chat_presets``); None for a preset on the embedded
    models."""

    @property
    def name(self) -> str:
        """Name of the run in links."""
        return self.file.removesuffix(_ENDING)


def entries(folder: Path = FOLDER) -> list[GalleryEntry]:
    """Return the gallery's entries; empty if the index is missing or damaged."""
    path = folder / INDEX
    if not path.is_file():
        return []
    try:
        return [GalleryEntry(**item) for item in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        _LOG.error("the index of the gallery is damaged: %s", type(error).__name__)
        return []


def entry_named(name: str, folder: Path = FOLDER) -> GalleryEntry | None:
    """Return the entry with the name that links use; None if it does not exist."""
    return next((entry for entry in entries(folder) if entry.name == name), None)


def open_entry(file: str, folder: Path = FOLDER) -> Trace:
    """Load one recorded run.

    Raises:
        TraceError: the gallery has no such file.
    """
    if file not in {entry.file for entry in entries(folder)}:
        raise TraceError(f"The gallery has no run named {file[:60]!r}.")
    return json_io.load(folder / file)


def make(
    folder: Path, tell: Callable[[str], None] = _LOG.warning, *, talks_only: bool = False
) -> list[GalleryEntry]:
    """Record the first presets and the conversations of every strategy, and write the index.

    Args:
        folder: folder of the gallery; recordings that the new index does not list are deleted.
        tell: receives a sentence if the conversations' model is not on this machine; their earlier
            recordings are kept.
        talks_only: record conversations only and keep the presets' recordings.

    Raises:
        EngineError: a run failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    standing = entries(folder)
    presets = [e for e in standing if e.model is None] if talks_only else _of_presets(folder)
    made = [*presets, *_of_talks(folder, [e for e in standing if e.model is not None], tell)]
    for old in folder.glob(f"*{_ENDING}"):
        if old.name not in {entry.file for entry in made}:
            old.unlink()
    write_index(made, folder)
    return made


def _of_presets(folder: Path) -> list[GalleryEntry]:
    from engine.strategies import STRATEGIES

    made = []
    for strategy in STRATEGIES.values():
        for number, preset in enumerate(strategy.presets[:PRESETS]):
            file = f"{strategy.name}-{number + 1}{_ENDING}"
            if not number:
                record(
                    strategy.name, preset
                )  # warm up: loading must not count in the recorded times
            made.append(_saved(folder / file, strategy, preset))
    return made


def _of_talks(
    folder: Path, standing: list[GalleryEntry], tell: Callable[[str], None]
) -> list[GalleryEntry]:
    """Record the conversations, or return the earlier entries if their model is not installed."""
    from engine.models.catalogue import CATALOGUE
    from engine.strategies import STRATEGIES
    from engine.strategies.chat_presets import MODEL, TALKS

    wanted = [(s, t) for n, s in STRATEGIES.items() for t in TALKS.get(n, ()) if t.recorded]
    if not CATALOGUE[MODEL].available:
        kept = [entry for entry in standing if entry.strategy in STRATEGIES]
        tell(
            f"{CATALOGUE[MODEL].title} is not on this machine, so conversations with it are not "
            f"recorded: those recorded before stay, {len(kept)} of {len(wanted)}; "
            f"`python -m engine fetch {MODEL}` brings it."
        )
        return kept
    made: list[GalleryEntry] = []
    for strategy, talk in wanted:
        number = 1 + sum(entry.strategy == strategy.name for entry in made)
        file = f"{strategy.name}-{MODEL}-{number}{_ENDING}"
        if not made:
            record(strategy.name, talk)  # warm up, as for presets
        made.append(_saved(folder / file, strategy, talk, MODEL))
    return made


def _saved(
    path: Path, strategy: Strategy, preset: Preset | Talk, model: str | None = None
) -> GalleryEntry:
    """Record a preset into a file and return its entry; the title names `model` if it is given."""
    from engine.models.catalogue import CATALOGUE

    trace = record(strategy.name, preset)
    json_io.save(trace, path)
    whose = "" if model is None else f" ({CATALOGUE[model].title})"
    title = f"{strategy.title}: {preset.name}{whose}"
    about = strategy.name, preset.name, title, preset.shows, preset.look_at
    return GalleryEntry(path.name, *about, quoted(trace), model)


def write_index(made: list[GalleryEntry], folder: Path = FOLDER) -> None:
    """Write the index of the gallery."""
    items = [{n: v for n, v in vars(entry).items() if v is not None} for entry in made]
    text = json.dumps(items, ensure_ascii=False, indent=1)
    (folder / INDEX).write_text(text + "\n")


def record(strategy: str, preset: Preset | Talk) -> Trace:
    """Run a preset or a conversation for at most ``TOKENS`` new tokens.

    Raises:
        EngineError: the run failed.
    """
    from engine.strategies.chat_presets import MODEL, Talk

    params = dict(preset.params)
    params["max_new_tokens"] = min(TOKENS, params.get("max_new_tokens", TOKENS))
    if isinstance(preset, Talk):
        return recorded(strategy, None, params, preset.seed, MODEL, preset.messages)
    return recorded(strategy, preset.prompt, params, preset.seed, preset.model)


def recorded(
    strategy: str,
    prompt: str | None,
    params: dict[str, Any],
    seed: int = 0,
    model: str | None = None,
    messages: list[dict[str, str]] | None = None,
) -> Trace:
    """Run a strategy to its end and record ``CANDIDATES`` candidates per step.

    Raises:
        EngineError: the run failed.
    """
    # Imported late: reading the gallery needs no torch.
    from engine.run.decoding import finished
    from engine.run.request import DecodeRequest

    request = DecodeRequest(
        strategy,
        model,
        prompt,
        messages=messages,
        params=params,
        seed=seed,
        top_candidates=CANDIDATES,
    )
    return finished(request)
