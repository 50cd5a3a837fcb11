"""Recorded examples of the page: a comparison, many draws, an unmarked twin, a taste test.

Each file stores values only. The page computes everything it shows from them, without a model.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.analysis import gallery, taste
from engine.analysis.comparisons import ComparePreset, available_presets
from engine.analysis.likelihood import Scores
from engine.statistics.prefix_tree import SampledText
from engine.strategies.base import STORY
from engine.trace import json_io
from engine.trace.records import Trace
from engine.trace.value_types import JsonObject
from engine.type_guards import is_list

FOLDER = gallery.FOLDER / "examples"
DRAWS_PROMPT, DRAWS_COUNT, DRAWS_TOKENS = STORY, 128, 6
"""Prompt, number and length of the draws; in longer texts every draw would be its own branch."""


@dataclass(frozen=True)
class ScoredRun:
    """A column of a comparison: its run and the base model's scores of its text."""

    trace: Trace
    scores: Scores
    pieces: tuple[str, ...]
    """Texts of the scored tokens, in the vocabulary of the base model."""


@dataclass(frozen=True)
class RecordedComparison:
    """A recorded comparison: name of its preset, its base model and its columns."""

    preset: str
    base: str
    columns: tuple[ScoredRun, ...]


@dataclass(frozen=True)
class RecordedDraws:
    """Recorded draws with the texts of their tokens and the seconds they took."""

    draws: tuple[SampledText, ...]
    pieces: Mapping[int, str]
    seconds: float


def recorded_comparisons(folder: Path = FOLDER) -> dict[str, str]:
    """Return name of a preset -> name of its recorded comparison, for those that have one."""
    named = {p.name: f"compare-{n}" for n, p in enumerate(available_presets(), 1)}
    return {preset: name for preset, name in named.items() if _path(folder, name).is_file()}


def load_comparison(name: str, folder: Path = FOLDER) -> RecordedComparison:
    """Return the recorded comparison of this name.

    Raises:
        OSError: the file is missing.
    """
    data = _read_json(_path(folder, name))
    columns = [
        ScoredRun(
            json_io.trace_from_dict(column["trace"]),
            Scores(**{n: _list_to_tuple(v) for n, v in column["scores"].items()}),
            tuple(column["pieces"]),
        )
        for column in data["columns"]
    ]
    return RecordedComparison(data["preset"], data["base"], tuple(columns))


def load_draws(folder: Path = FOLDER) -> RecordedDraws:
    """Return the recorded draws.

    Raises:
        OSError: the file is missing.
    """
    data = _read_json(_path(folder, "draws"))
    made = [SampledText(seed, tuple(ids), tuple(logprobs)) for seed, ids, logprobs in data["draws"]]
    return RecordedDraws(
        tuple(made), {int(i): text for i, text in data["pieces"].items()}, data["seconds"]
    )


def load_unmarked_twin(folder: Path = FOLDER) -> Trace:
    """Return the unmarked twin of the first watermarked run: same prompt, seed and length.

    Raises:
        OSError: the file is missing.
    """
    return json_io.load(_path(folder, "unmarked"))


def load_continuations(folder: Path = FOLDER) -> dict[str, Any]:
    """Return the recorded continuations of a taste test; see ``record_continuations``.

    Raises:
        OSError: the file is missing.
    """
    return _read_json(_path(folder, "taste"))


def record_examples(folder: Path) -> list[Path]:
    """Record all examples and return their files.

    Raises:
        EngineError: a run failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compared = record_comparisons(folder)
    drawn, twin, texts = (_path(folder, name) for name in ("draws", "unmarked", "taste"))
    _write_json(drawn, _record_draws())
    json_io.save(_record_unmarked_twin(), twin)
    _write_json(texts, taste.record_continuations())
    return [*compared, drawn, twin, texts]


def record_comparisons(folder: Path) -> list[Path]:
    """Record the comparison of every preset and return their files.

    Raises:
        EngineError: a run failed.
    """
    made: list[Path] = []
    for number, preset in enumerate(available_presets(), 1):
        made.append(_path(folder, f"compare-{number}"))
        _write_json(made[-1], _record_comparison(preset))
    return made


def _record_comparison(preset: ComparePreset) -> dict[str, Any]:
    # Imported late: reading the examples needs no torch.
    from engine.analysis.likelihood import score_trace
    from engine.models.loading import load

    columns: list[JsonObject] = []
    base = None
    for strategy, params in preset.columns:
        trace = gallery.record_run(strategy, preset.prompt, params, preset.seed)
        base = base or load(trace.model.id)
        scores = score_trace(trace, base, load(trace.model.id))
        columns.append(
            {
                "trace": json_io.trace_to_dict(trace),
                "scores": asdict(scores),
                "pieces": [base.pieces[i] for i in scores.token_ids],
            }
        )
    assert base is not None
    return {"preset": preset.name, "base": base.name, "columns": columns}


def _record_draws() -> dict[str, Any]:
    from engine.analysis.many_draws import draw_many
    from engine.run.request import DecodeRequest

    request = DecodeRequest(
        "sampling", prompt=DRAWS_PROMPT, params={"max_new_tokens": DRAWS_TOKENS}
    )
    made: list[list[Any]] = []
    pieces: dict[int, str] = {}
    seconds = 0.0
    for batch in draw_many(request, DRAWS_COUNT):
        made += [[d.seed, d.token_ids, d.logprobs] for d in batch.draws]
        pieces |= batch.pieces
        seconds = batch.elapsed_s
    return {"draws": made, "pieces": pieces, "seconds": seconds}


def _record_unmarked_twin() -> Trace:
    from engine.strategies.watermark import STRATEGY

    preset = STRATEGY.presets[0]
    length = min(gallery.MAX_NEW_TOKENS, preset.params["max_new_tokens"])
    return gallery.record_run("sampling", preset.prompt, {"max_new_tokens": length}, preset.seed)


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json.gz"


def _read_json(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _write_json(path: Path, data: object) -> None:
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # mtime=0: the same record gives the same bytes.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _list_to_tuple(value: Any) -> Any:
    return tuple(value) if is_list(value) else value
