"""Custom generation methods that tests write, and how they are run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engine.models import hub
from engine.sandbox import catalogue, method_lookup, method_store, trust
from engine.sandbox.folder import read_method
from engine.sandbox.outcome import Outcome, collect_steps
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.sources.source import Source
from engine.trace.records import Step

PLAIN = """
import torch

def generate(model, input_ids, generation_config=None, **kwargs):
    ids = input_ids
    for _ in range(generation_config.max_new_tokens):
        ids = torch.cat([ids, model(input_ids=ids).logits[:, -1].argmax(-1, keepdim=True)], -1)
    return ids
"""

STAND_IN = """
import os, sys; sys.path.insert(0, sys.argv[1])
from engine.sandbox import confinement, wire

confinement.exit_with_parent(int(sys.argv[2]))
with os.fdopen(int(sys.argv[3]), "wb", buffering=0) as out:
    def tell(message): out.write(wire.pack_message(message))
    weights = wire.read_message(sys.stdin.buffer)["weights"]
    if weights.get("never"):
        wire.read_message(sys.stdin.buffer)
    if not weights.get("fails"):
        tell({"ready": {"barriers": [], "load_s": 0.0, "vocab_size": 10}})
        if wire.read_message(sys.stdin.buffer):
            tell({"end": {"start": 0, "passes": 1, "sequences": [[1]], "notes": [str(os.getpid())]}})
"""
"""A process's program for tests: it says that it is ready, and answers a job with its number; weights prevent it."""


def write_method(
    folder: Path, source: str, *, requirements: str = "", readme: str = "", **beside: str
) -> Path:
    """Write a method's folder; ``beside`` are more files of its code by their stems."""
    code = folder / "custom_generate"
    code.mkdir(parents=True)
    (code / "generate.py").write_text(source)
    if requirements:
        (code / "requirements.txt").write_text(requirements)
    if readme:
        (folder / "README.md").write_text(readme)
    for stem, text in beside.items():
        (code / f"{stem}.py").write_text(text)
    return folder


def plain_model(folder: Path) -> str:
    """Write a folder that passes for a model's until it is loaded."""
    folder.mkdir()
    save_file({"weight": torch.zeros(4, 4)}, folder / "model.safetensors")
    return str(folder)


def job(rows: list[list[int]], new: int = 6, **more: Any) -> dict[str, Any]:
    """Return a job of so many new tokens."""
    config = {"max_new_tokens": new, "eos_token_id": None, "pad_token_id": 0}
    plain = {"ids": rows, "config": config, "arguments": {}, "seed": 0, "top_candidates": 3}
    return plain | more


def run_method(
    folder: Path, task: dict[str, Any], child: SandboxProcess | None = None
) -> tuple[list[Step], Outcome]:
    """Run a method on Storyteller in a process of its own."""
    with child or SandboxProcess(Source.parse("storyteller").folder()) as process:
        return collect_steps(process.run(read_method(folder), task))


def set_for_methods(monkeypatch: Any, folder: Path, **values: Any) -> None:
    """Have methods kept in a folder, under settings of a test.

    Args:
        monkeypatch: pytest's.
        folder: in place of the user's own.
        values: name -> value of other settings.
    """
    settings = dataclasses.replace(method_store.SETTINGS, methods=str(folder), **values)
    for module in (catalogue, method_lookup, method_store, trust, hub):
        monkeypatch.setattr(module, "SETTINGS", settings)
