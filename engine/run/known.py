"""What is known of a model that was not loaded, and how it is said."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from engine.declare.weights import TORCH, WeightsParams
from engine.models.adapter_names import LoraAdapter
from engine.models.gguf_facts import GgufFacts
from engine.models.readers import SpeechChoices
from engine.strategies import STRATEGIES

_MOST_WORDS = 200


@dataclass(frozen=True)
class Preflight:
    """What is known of a model that was not loaded; None is what could not be told.

    Attributes:
        name: as it was asked for.
        where: embedded, here (on this machine), unmade (here, and a folder is made of it first) or hub.
        revision: the commit on the hub, the wheel it was brought in, or the sha256 of what it was made of.
        model_type: of its config.json.
        architecture: the class that transformers makes of it.
        cannot_serve: strategy -> why it cannot use the model, in a sentence; the others can.
        parameters: how many values its weights hold.
        context_length: positions it was made for; None also where they are relative.
        chat_template: whether conversations have a form of their own.
        licence: as its model card or the catalogue names it.
        gated: whether its owner asks for an agreement first.
        private: whether only its owner sees it on the hub.
        disk_bytes: of its files; of a model of the hub, of what would be fetched, of what is unmade, of what is made.
        memory_bytes: of its weights, held as asked for.
        weights: how they would be held, in words.
        fits_disk: whether there is room for its files.
        fits_memory: whether its weights have room in memory.
        notes: sentences on what stands in the way, and what would fit.
        gguf: what the header of its GGUF file says, where it is one.
        adapter: what its adapter_config.json says, where it is a LoRA adapter.
        base: the model that it adapts, as it is called here.
        takes: what it can be given besides text: image, audio.
        needs: which of them it must be given, None where text alone will do.
        speech: what a speech model can be told besides, None for any other model.
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
    gguf: GgufFacts | None = None
    adapter: LoraAdapter | None = None
    base: str | None = None
    takes: tuple[str, ...] = ()
    needs: str | None = None
    speech: SpeechChoices | None = None

    @property
    def fits(self) -> bool | None:
        """Whether there is room for it, on the disk and in memory."""
        if False in (self.fits_disk, self.fits_memory):
            return False
        return self.fits_memory

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        lists = {"notes": list(self.notes), "takes": list(self.takes)}
        return dataclasses.asdict(self) | {"fits": self.fits, **lists}

    def told(self) -> list[tuple[str, str]]:
        """Return what is known as pairs of a subject and a text, the notes left out."""
        access = "" if self.gated is None else _ACCESS[self.private or False, self.gated]
        pairs = [
            ("Where", _WHERE[self.where]),
            ("GGUF file", self.gguf and _header(self.gguf)),
            ("LoRA adapter", self.adapter and _adapter(self.adapter)),
            ("Base", self.adapter and (self.base or self.adapter.base)),
            ("Kind", " · ".join(filter(None, (self.architecture, self.model_type)))),
            ("Parameters", _count(self.parameters)),
            ("On disk", size(self.disk_bytes)),
            ("In memory", self.memory_bytes and f"{size(self.memory_bytes)} as {self.weights}"),
            ("Fits here", _YES[self.fits]),
            ("Context", self.context_length and f"{self.context_length:,} tokens"),
            ("Chat template", _YES[self.chat_template]),
            ("Licence", self.licence),
            ("Access", access),
            ("Strategies", _strategies(self.cannot_serve)),
        ]
        left = {"GGUF file": self.gguf, "LoRA adapter": self.adapter, "Base": self.adapter}
        return [
            (subject, text or "not known")
            for subject, text in pairs
            if text != "" and left.get(subject, True) is not None
        ]


_WHERE = {
    "embedded": "embedded in this playground",
    "here": "on this machine",
    "unmade": "on this machine; the first run makes a folder of it",
    "hub": "on the hub; the first run fetches it",
}
_YES = {True: "yes", False: "no", None: None}
_ACCESS = {
    (False, False): "open to everybody",
    (False, True): "gated: its owner asks for an agreement on its hub page",
    (True, False): "private",
    (True, True): "private and gated",
}


def words(held: WeightsParams) -> str:
    """Return how weights are held, in words."""
    backend = "" if held.backend == TORCH else held.backend
    return ", ".join(filter(None, (backend, held.dtype, held.quantization)))


def size(count: float | None) -> str:
    """Return a number of bytes as it is said, nothing where it is not known."""
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


def _header(gguf: GgufFacts) -> str:
    """Return what a GGUF file is: its size, and how much of its values is kept in which type."""
    shares = (f"{100 * share:.0f} % {kind}" for kind, share in gguf.types.items())
    return f"{gguf.architecture}, {size(gguf.file_bytes)}, {', '.join(shares)}"


def _adapter(adapter: LoraAdapter) -> str:
    where = ", ".join(adapter.target_modules) or "the layers that peft chooses"
    return f"rank {adapter.r}, alpha {adapter.lora_alpha:g}, on {where}"[:_MOST_WORDS]
