"""The gallery of recorded runs: one file for each preset or conversation, and an index."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ParameterError, TraceError
from engine.sources.installable import fetch_command
from engine.statistics.run_figures import quotable_figures
from engine.trace import json_io
from engine.trace.dial_grid import DialGrid
from engine.trace.dial_grid_json import dump_dial_grid, load_dial_grid
from engine.trace.dial_map_json import dump_dial_map
from engine.trace.records import Trace

if TYPE_CHECKING:
    from engine.run.request import DecodeRequest
    from engine.strategies.base import Preset, Strategy
    from engine.strategies.chat_presets import ChatPreset

_LOG = logging.getLogger("engine")
FOLDER = Path(__file__).resolve().parents[2] / "assets" / "gallery"
INDEX_FILE = "index.json"
DIAL_MAPS = "dial_maps"
"""Folder of the maps of the sampled runs, one file for each dial."""
GRID_DIALS = ("temperature", "top_p")
"""The two dials that the page maps together."""
CANDIDATES = 8
MAX_NEW_TOKENS = 100
"""Most new tokens of a recorded run; enough to show what the presets' sentences describe."""
_FILE_SUFFIX = ".json.gz"


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
        return self.file.removesuffix(_FILE_SUFFIX)


def list_entries(folder: Path = FOLDER) -> list[GalleryEntry]:
    """Return the gallery's entries; empty if the index is missing or damaged."""
    path = folder / INDEX_FILE
    if not path.is_file():
        return []
    try:
        return [GalleryEntry(**item) for item in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        _LOG.error("the index of the gallery is damaged: %s", type(error).__name__)
        return []


def find_entry(name: str, folder: Path = FOLDER) -> GalleryEntry | None:
    """Return the entry with the name that links use; None if it does not exist."""
    return next((entry for entry in list_entries(folder) if entry.name == name), None)


def open_entry(file: str, folder: Path = FOLDER) -> Trace:
    """Load one recorded run.

    Raises:
        TraceError: the gallery has no such file.
    """
    if file not in {entry.file for entry in list_entries(folder)}:
        raise TraceError("The gallery has no run named {file}.", file=repr(file[:60]))
    return json_io.load(folder / file)


def list_dial_maps(folder: Path = FOLDER) -> list[tuple[GalleryEntry, str]]:
    """Return (entry, dial) of every map that the gallery has: those of its sampled runs."""
    from engine.strategies import STRATEGIES

    sampled = [entry for entry in list_entries(folder) if entry.strategy == "sampling"]
    pairs = [(entry, dial) for entry in sampled for dial in STRATEGIES["sampling"].dials]
    return [(e, d) for e, d in pairs if dial_map_path(e.name, d, folder).is_file()]


def dial_map_path(name: str, dial: str, folder: Path = FOLDER) -> Path:
    """Return the file of the map of a recorded run's dial."""
    return folder / DIAL_MAPS / f"{name}.{dial}{_FILE_SUFFIX}"


def find_dial_grid(
    entry: GalleryEntry, dial: str, second: str, folder: Path = FOLDER
) -> DialGrid | None:
    """Return the map of two dials of a recorded run; None if the gallery has none.

    Raises:
        TraceError: its file is damaged.
    """
    path = dial_map_path(entry.name, f"{dial}.{second}", folder)
    return load_dial_grid(path.read_bytes()) if path.is_file() else None


def mapped_runs(folder: Path = FOLDER) -> Iterator[tuple[GalleryEntry, DecodeRequest]]:
    """Yield the sampled runs whose dials can be mapped, with the request of each.

    Runs of models that are not on this machine are left out.
    """
    from engine.analysis.dial_map.build import refuse_settings
    from engine.run.request import check_request, request_from_trace
    from engine.sources.catalogue import CATALOGUE

    for entry in list_entries(folder):
        if entry.strategy != "sampling" or not (
            entry.model is None or CATALOGUE[entry.model].available
        ):
            continue
        request = request_from_trace(open_entry(entry.file, folder))
        try:
            refuse_settings(check_request(request))
        except ParameterError:
            continue  # such as several texts, or a filter that draws itself
        yield entry, request


def record_dial_maps(folder: Path = FOLDER) -> list[Path]:
    """Compute the maps of the runs of ``mapped_runs``.

    Each run has the map of every dial, and that of GRID_DIALS together.

    Returns:
        The files written.

    Raises:
        EngineError: a map could not be computed.
    """
    from engine.analysis.dial_map.build import map_slider
    from engine.analysis.dial_map.grid import map_two_sliders
    from engine.strategies import STRATEGIES

    (folder / DIAL_MAPS).mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for entry, request in mapped_runs(folder):
        for dial in STRATEGIES["sampling"].dials:
            *_, found = map_slider(request, dial)
            written.append(_write_map(entry.name, dial, dump_dial_map(found), folder))
        *_, grid = map_two_sliders(request, *GRID_DIALS)
        written.append(_write_map(entry.name, ".".join(GRID_DIALS), dump_dial_grid(grid), folder))
    return written


def _write_map(name: str, dial: str, text: str, folder: Path) -> Path:
    path = dial_map_path(name, dial, folder)
    # mtime=0: the same map gives the same bytes.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def record_gallery(
    folder: Path, tell: Callable[[str], None] = _LOG.warning, *, talks_only: bool = False
) -> list[GalleryEntry]:
    """Record the presets and the conversations of every strategy, and write the index.

    Args:
        folder: folder of the gallery; recordings that the new index does not list are deleted.
        tell: receives a sentence if the conversations' model is not on this machine; their earlier
            recordings are kept.
        talks_only: record conversations only and keep the presets' recordings.

    Raises:
        EngineError: a run failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    standing = list_entries(folder)
    presets = [e for e in standing if e.model is None] if talks_only else _record_presets(folder)
    made = [*presets, *_record_talks(folder, [e for e in standing if e.model is not None], tell)]
    for old in folder.glob(f"*{_FILE_SUFFIX}"):
        if old.name not in {entry.file for entry in made}:
            old.unlink()
    write_index(made, folder)
    return made


def _record_presets(folder: Path) -> list[GalleryEntry]:
    from engine.strategies import STRATEGIES

    made: list[GalleryEntry] = []
    for strategy in STRATEGIES.values():
        for number, preset in enumerate(strategy.presets):
            file = f"{strategy.name}-{number + 1}{_FILE_SUFFIX}"
            if not number:
                record_preset(
                    strategy.name, preset
                )  # warm up: loading must not count in the recorded times
            made.append(_save_recording(folder / file, strategy, preset))
    return made


def _record_talks(
    folder: Path, standing: list[GalleryEntry], tell: Callable[[str], None]
) -> list[GalleryEntry]:
    """Record the conversations, or return the earlier entries if their model is not installed."""
    from engine.sources.catalogue import CATALOGUE
    from engine.strategies import STRATEGIES
    from engine.strategies.chat_presets import CHAT_MODEL, CHAT_PRESETS

    wanted = [(s, t) for n, s in STRATEGIES.items() for t in CHAT_PRESETS.get(n, ())]
    if not CATALOGUE[CHAT_MODEL].available:
        kept = [entry for entry in standing if entry.strategy in STRATEGIES]
        tell(
            f"{CATALOGUE[CHAT_MODEL].title} is not on this machine, so conversations with it are not "
            f"recorded: those recorded before stay, {len(kept)} of {len(wanted)}; "
            f"`{fetch_command(CHAT_MODEL)}` brings it."
        )
        return kept
    made: list[GalleryEntry] = []
    for strategy, talk in wanted:
        number = 1 + sum(entry.strategy == strategy.name for entry in made)
        file = f"{strategy.name}-{CHAT_MODEL}-{number}{_FILE_SUFFIX}"
        if not made:
            record_preset(strategy.name, talk)  # warm up, as for presets
        made.append(_save_recording(folder / file, strategy, talk, CHAT_MODEL))
    return made


def _save_recording(
    path: Path, strategy: Strategy, preset: Preset | ChatPreset, model: str | None = None
) -> GalleryEntry:
    """Record a preset into a file and return its entry; the title names `model` if it is given."""
    from engine.sources.catalogue import CATALOGUE

    trace = record_preset(strategy.name, preset)
    json_io.save(trace, path)
    whose = "" if model is None else f" ({CATALOGUE[model].title})"
    title = f"{strategy.title}: {preset.name}{whose}"
    about = strategy.name, preset.name, title, preset.shows, preset.look_at
    return GalleryEntry(path.name, *about, quotable_figures(trace), model)


def write_index(made: list[GalleryEntry], folder: Path = FOLDER) -> None:
    """Write the index of the gallery."""
    items = [{n: v for n, v in vars(entry).items() if v is not None} for entry in made]
    text = json.dumps(items, ensure_ascii=False, indent=1)
    (folder / INDEX_FILE).write_text(text + "\n")


def record_preset(strategy: str, preset: Preset | ChatPreset) -> Trace:
    """Run a preset or a conversation for at most ``MAX_NEW_TOKENS`` new tokens.

    Raises:
        EngineError: the run failed.
    """
    from engine.strategies.chat_presets import CHAT_MODEL, ChatPreset

    params = dict(preset.params)
    params["max_new_tokens"] = min(MAX_NEW_TOKENS, params.get("max_new_tokens", MAX_NEW_TOKENS))
    if isinstance(preset, ChatPreset):
        return record_run(strategy, None, params, preset.seed, CHAT_MODEL, preset.messages)
    return record_run(strategy, preset.prompt, params, preset.seed, preset.model)


def record_run(
    strategy: str,
    prompt: str | None,
    params: Mapping[str, object],
    seed: int = 0,
    model: str | None = None,
    messages: list[dict[str, str]] | None = None,
) -> Trace:
    """Run a strategy to its end and record ``CANDIDATES`` candidates per step.

    Raises:
        EngineError: the run failed.
    """
    # Imported late: reading the gallery needs no torch.
    from engine.run.decoding import decode_to_trace
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
    return decode_to_trace(request)
