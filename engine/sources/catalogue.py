"""The catalogue of models the playground offers, with the purpose of each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.settings import SETTINGS

MODEL_DIR = Path(
    os.environ.get(
        "PLAYGROUND_MODEL_DIR", Path(__file__).resolve().parents[2] / "assets" / "models"
    )
)
SOURCE_FILE = "brought_from.json"
"""File in an installed model's folder with its source. It is written last, so it marks completeness."""


def install_path(name: str) -> Path:
    """Return the folder that a model of ``sources`` is installed to."""
    return Path(SETTINGS.models).expanduser() / name


_NEEDS_BY_ROLE = {"captions": "image", "speech": "audio"}
"""Role -> input that its models read instead of text."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One model of the catalogue."""

    name: str
    """Folder under assets/models for embedded models, folder under PLAYGROUND_MODELS for installed
    ones, else the hub id."""
    title: str
    good_for: str
    parameters: str
    licence: str
    role: str = "target"
    """target, draft, foreign, seq2seq, captions or speech; the last two read a picture or a sound, no text."""
    embedded: bool = False
    brought: bool = False
    """Neither shipped nor loaded by hub id: ``python -m engine fetch`` installs it."""
    fits: tuple[str, ...] = ()
    """For draft models: names of the target models with the same tokenizer."""
    gated: bool = False
    """Whether the hub gives it only to who has accepted its licence there."""

    @property
    def kind(self) -> str:
        """causal, seq2seq, captions or speech: selects the transformers auto class that loads it."""
        return self.role if self.role in ("seq2seq", *_NEEDS_BY_ROLE) else "causal"

    @property
    def needs(self) -> str | None:
        """Required input, image or audio; None for a model that reads text."""
        return _NEEDS_BY_ROLE.get(self.role)

    @property
    def memory_gb(self) -> float:
        """Memory of its weights in float32, in GB."""
        number, unit = self.parameters.split()
        return round(4 * float(number) * {"M": 0.001, "B": 1.0}[unit], 2)

    @property
    def available(self) -> bool:
        """Whether it is on this machine or can be fetched from the hub on demand."""
        return self.folder is None or (self.folder / "config.json").is_file()

    @property
    def folder(self) -> Path | None:
        """Its folder, which may not exist yet; None for a hub model."""
        if self.embedded:
            return MODEL_DIR / self.name
        return install_path(self.name) if self.brought else None


_ENTRIES = (
    CatalogueEntry(
        "storyteller",
        "Storyteller (embedded)",
        "children's stories; every strategy shows its effect",
        "12 M",
        "Apache-2.0",
        embedded=True,
    ),
    CatalogueEntry(
        "storyteller-draft",
        "Storyteller draft (embedded)",
        "drafting for Storyteller",
        "1.7 M",
        "Apache-2.0",
        "draft",
        embedded=True,
        fits=("storyteller",),
    ),
    CatalogueEntry(
        "foreign-draft",
        "Foreign draft (embedded)",
        "universal drafting: another tokenizer",
        "1.0 M",
        "Apache-2.0",
        "foreign",
        embedded=True,
    ),
    CatalogueEntry(
        "storyfixer",
        "Story fixer (embedded)",
        "restoring spelling, case and punctuation",
        "3 M",
        "Apache-2.0",
        "seq2seq",
        embedded=True,
    ),
    CatalogueEntry(
        "captioner",
        "Captioner (embedded)",
        "pictures of coloured shapes in one sentence; beams find better ones than greedy search",
        "1.8 M",
        "Apache-2.0",
        "captions",
        embedded=True,
    ),
    CatalogueEntry(
        "transcriber",
        "Transcriber (embedded)",
        "sentences of children's stories, said by espeak-ng in up to 3 seconds; a Whisper of 300 words",
        "0.7 M",
        "Apache-2.0",
        "speech",
        embedded=True,
    ),
    CatalogueEntry(
        "smollm2",
        "SmolLM2 135M Instruct",
        "instructions and chat; a real model",
        "135 M",
        "Apache-2.0",
        brought=True,
    ),
    CatalogueEntry(
        "HuggingFaceTB/SmolLM2-135M",
        "SmolLM2 135M",
        "general English; drafts for SmolLM2 360M",
        "135 M",
        "Apache-2.0",
        "target",
        fits=("HuggingFaceTB/SmolLM2-360M",),
    ),
    CatalogueEntry(
        "HuggingFaceTB/SmolLM2-360M",
        "SmolLM2 360M",
        "general English, target for SmolLM2 135M",
        "360 M",
        "Apache-2.0",
    ),
    CatalogueEntry(
        "Qwen/Qwen2.5-0.5B", "Qwen2.5 0.5B", "general, multilingual", "494 M", "Apache-2.0"
    ),
    CatalogueEntry(
        "distilbert/distilgpt2",
        "DistilGPT-2",
        "general English, small and old; drafts for GPT-2",
        "82 M",
        "Apache-2.0",
        fits=("openai-community/gpt2",),
    ),
    CatalogueEntry(
        "Qwen/Qwen2.5-0.5B-Instruct",
        "Qwen2.5 0.5B Instruct",
        "chat, multilingual; drafts for Qwen2.5 1.5B Instruct",
        "494 M",
        "Apache-2.0",
        fits=("Qwen/Qwen2.5-1.5B-Instruct",),
    ),
    CatalogueEntry(
        "Qwen/Qwen2.5-1.5B-Instruct",
        "Qwen2.5 1.5B Instruct",
        "chat, multilingual",
        "1.5 B",
        "Apache-2.0",
    ),
    CatalogueEntry(
        "Qwen/Qwen3-0.6B",
        "Qwen3 0.6B",
        "chat, multilingual; drafts for Qwen3 1.7B and 4B",
        "0.6 B",
        "Apache-2.0",
        fits=("Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B"),
    ),
    CatalogueEntry("Qwen/Qwen3-1.7B", "Qwen3 1.7B", "chat, multilingual", "1.7 B", "Apache-2.0"),
    CatalogueEntry("Qwen/Qwen3-4B", "Qwen3 4B", "chat, multilingual", "4 B", "Apache-2.0"),
    CatalogueEntry("openai-community/gpt2", "GPT-2", "general English, old", "124 M", "MIT"),
    CatalogueEntry(
        "EleutherAI/pythia-70m",
        "Pythia 70M",
        "drafts for Pythia 410M",
        "70 M",
        "Apache-2.0",
        fits=("EleutherAI/pythia-410m",),
    ),
    CatalogueEntry(
        "EleutherAI/pythia-410m",
        "Pythia 410M",
        "general English, for research",
        "405 M",
        "Apache-2.0",
    ),
    CatalogueEntry(
        "google/flan-t5-small",
        "FLAN-T5 small",
        "instructions and summaries",
        "77 M",
        "Apache-2.0",
        "seq2seq",
    ),
    # The models of the documents on decoding that people come from.
    CatalogueEntry(
        "HuggingFaceTB/SmolLM-135M",
        "SmolLM 135M",
        "general English; drafts for SmolLM 1.7B",
        "135 M",
        "Apache-2.0",
        fits=("HuggingFaceTB/SmolLM-1.7B",),
    ),
    CatalogueEntry(
        "HuggingFaceTB/SmolLM-1.7B",
        "SmolLM 1.7B",
        "general English, target for SmolLM 135M",
        "1.7 B",
        "Apache-2.0",
    ),
    CatalogueEntry(
        "EleutherAI/pythia-160m",
        "Pythia 160M",
        "drafts for Pythia 1.4B",
        "162 M",
        "Apache-2.0",
        fits=("EleutherAI/pythia-1.4b",),
    ),
    CatalogueEntry(
        "EleutherAI/pythia-1.4b",
        "Pythia 1.4B",
        "general English, for research",
        "1.4 B",
        "Apache-2.0",
    ),
    CatalogueEntry(
        "facebook/layerskip-llama3.2-1B",
        "LayerSkip Llama 3.2 1B",
        "early exit: its first layers were trained to draft",
        "1.2 B",
        "FAIR Noncommercial Research",
        gated=True,
    ),
    CatalogueEntry(
        "double7/vicuna-68m",
        "Vicuna 68M",
        "universal drafting: another tokenizer than Gemma's",
        "68 M",
        "Apache-2.0",
        "foreign",
    ),
    CatalogueEntry(
        "google/gemma-2-9b",
        "Gemma 2 9B",
        "general; target for Vicuna 68M in universal drafting",
        "9.2 B",
        "Gemma",
        gated=True,
    ),
    CatalogueEntry(
        "google-t5/t5-small",
        "T5 small",
        "translation and summaries, with a prefix that names the task",
        "60.5 M",
        "Apache-2.0",
        "seq2seq",
    ),
    CatalogueEntry(
        "google/pegasus-xsum",
        "Pegasus XSum",
        "summaries of one sentence; diverse beams",
        "570 M",
        "Apache-2.0",
        "seq2seq",
    ),
)

CATALOGUE: dict[str, CatalogueEntry] = {entry.name: entry for entry in _ENTRIES}


def drafts_for(target: str, tokenizer: str) -> list[CatalogueEntry]:
    """Return the catalogue's draft models for a target model, best fit first.

    Args:
        target: name of the target model. Targets that read pictures or sounds get none, since no
            draft model here does.
        tokenizer: same_tokenizer (the draft model must share it), any_tokenizer or none.
    """
    if target in CATALOGUE and CATALOGUE[target].needs:
        return []
    others = [e for e in CATALOGUE.values() if e.available and e.name != target]
    if tokenizer == "same_tokenizer":
        return [e for e in others if target in e.fits]
    if tokenizer == "any_tokenizer":
        small = [e for e in others if e.role in ("foreign", "draft") or e.fits]
        return sorted(small, key=lambda e: (not e.embedded, e.role != "foreign"))
    return []
