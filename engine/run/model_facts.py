"""Facts about a model that was not loaded, and their display texts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from engine.declare.weights import TORCH, WeightsParams
from engine.messages import Message
from engine.models.gguf_facts import GgufFacts
from engine.models.readers import SpeechChoices
from engine.sources.lora_adapters import LoraAdapter
from engine.strategies import STRATEGIES

_MAX_CHARS = 200


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model that was not loaded; None means unknown.

    Attributes:
        name: as requested.
        where: embedded, here (on this machine), unmade (on this machine, its folder is built first)
            or hub.
        revision: the hub commit, the wheel it came in, or the sha256 of the files it is built from.
        model_type: from config.json.
        architecture: the transformers class.
        cannot_serve: strategy -> one sentence why it cannot use the model; other strategies can.
        parameters: number of weight values.
        context_length: positions the model was trained for; None also for relative positions.
        chat_template: whether the model has a chat template.
        licence: from the model card or the catalogue.
        gated: whether the owner requires an agreement before download.
        private: whether only the owner can see it on the hub.
        disk_bytes: size of its files: on disk, to be downloaded (hub), or to be built (unmade).
        memory_bytes: size of its weights in the requested precision.
        weights: the requested precision, in words.
        fits_disk: whether its files fit on the disk.
        fits_memory: whether its weights fit in the memory budget.
        notes: sentences about obstacles, and about what would fit.
        gguf: header facts of a GGUF file, else None.
        adapter: adapter_config.json facts of a LoRA adapter, else None.
        base: name of the adapter's base model.
        takes: inputs it accepts besides text: image, audio.
        needs: the input among these that is required; None if text alone suffices.
        speech: options of a speech model, None for other models.
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
        """Whether it fits on the disk and in memory, None if unknown."""
        if False in (self.fits_disk, self.fits_memory):
            return False
        return self.fits_memory

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        lists = {"notes": list(self.notes), "takes": list(self.takes)}
        return dataclasses.asdict(self) | {"fits": self.fits, **lists}

    def to_pairs(self) -> list[tuple[str, str]]:
        """Return the facts as (label, text) pairs, without the notes."""
        access = "" if self.gated is None else _ACCESS_TEXTS[self.private or False, self.gated]
        pairs = [
            ("Where", _LOCATION_TEXTS[self.where]),
            ("GGUF file", self.gguf and _describe_gguf(self.gguf)),
            ("LoRA adapter", self.adapter and _describe_adapter(self.adapter)),
            ("Base", self.adapter and (self.base or self.adapter.base)),
            ("Kind", " · ".join(filter(None, (self.architecture, self.model_type)))),
            ("Parameters", _format_parameter_count(self.parameters)),
            ("On disk", format_bytes(self.disk_bytes)),
            (
                "In memory",
                self.memory_bytes
                and Message(
                    "{size} as {weights}",
                    size=format_bytes(self.memory_bytes),
                    weights=self.weights,
                ),
            ),
            ("Fits here", _YES_NO_TEXTS[self.fits]),
            (
                "Context",
                self.context_length and Message("{n} tokens", n=f"{self.context_length:,}"),
            ),
            ("Chat template", _YES_NO_TEXTS[self.chat_template]),
            ("Licence", self.licence),
            ("Access", access),
            ("Strategies", _describe_strategies(self.cannot_serve)),
        ]
        left = {"GGUF file": self.gguf, "LoRA adapter": self.adapter, "Base": self.adapter}
        return [
            (subject, text or "not known")
            for subject, text in pairs
            if text != "" and left.get(subject, True) is not None
        ]


_LOCATION_TEXTS = {
    "embedded": "embedded in this playground",
    "here": "on this machine",
    "unmade": "on this machine; the first run creates a folder for it",
    "hub": "on the hub; the first run fetches it",
}
_YES_NO_TEXTS = {True: "yes", False: "no", None: None}
_ACCESS_TEXTS = {
    (False, False): "open to everybody",
    (False, True): "gated: its owner asks for an agreement on its hub page",
    (True, False): "private",
    (True, True): "private and gated",
}


def describe_weights(weights: WeightsParams) -> str:
    """Return backend, dtype and quantization as text."""
    backend = "" if weights.backend == TORCH else weights.backend
    return ", ".join(filter(None, (backend, weights.dtype, weights.quantization)))


def format_bytes(count: float | None) -> str:
    """Return a byte count as MB or GB text, empty for None."""
    if count is None:
        return ""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(count / 1e6, 0.1):.1f} MB"


def _format_parameter_count(values: int | None) -> str | None:
    if values is None:
        return None
    if values >= 1e9:
        return Message("{n} billion", n=f"{values / 1e9:.2f}")
    return Message("{n} million", n=f"{values / 1e6:.1f}")


def _describe_strategies(refused: dict[str, str] | None) -> str | None:
    """Return how many strategies can use a model, and which cannot."""
    if refused is None:
        return None
    if not refused:
        return Message("all {n} can use it", n=len(STRATEGIES))
    if len(refused) == len(STRATEGIES):
        return "none can use it"
    titles = ", ".join(STRATEGIES[name].title for name in refused)
    return Message(
        "{n} of {total} can use it; not {titles}",
        n=len(STRATEGIES) - len(refused),
        total=len(STRATEGIES),
        titles=titles,
    )


def _describe_gguf(gguf: GgufFacts) -> str:
    """Return a GGUF file's architecture, size and the share of values in each storage type."""
    shares = (f"{100 * share:.0f} % {kind}" for kind, share in gguf.types.items())
    return f"{gguf.architecture}, {format_bytes(gguf.file_bytes)}, {', '.join(shares)}"


def _describe_adapter(adapter: LoraAdapter) -> str:
    layers = ", ".join(adapter.target_modules)[:_MAX_CHARS]
    return Message(
        "rank {rank}, alpha {alpha}, on {layers}",
        rank=adapter.r,
        alpha=f"{adapter.lora_alpha:g}",
        layers=layers or "the layers that peft chooses",
    )
