"""Runs custom generation methods with transformers alone, in a process that knows nothing of the engine.

What stdin says in JSON is run, and what came of it is printed as JSON; ``outside`` is the other end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch


def outside(
    model: str, runs: dict[str, dict[str, Any]], own: Path, threads: int = 1
) -> dict[str, dict[str, Any]]:
    """Return what came of runs, one after another in one new process.

    Args:
        model: its folder.
        runs: by any names. Of each: method (its folder, None for plain generate()), prompts (lists of ids), config,
            arguments, seed, name (by which the ids are given, inputs if left out), and stop_after (new tokens at which
            a criterion of the caller's stops it).
        own: a folder for the code that transformers copies.
        threads: that torch uses.

    Returns:
        By the same names: rows (new ids of every row), passes and streamed (every id that a streamer was given, of
        one prompt), or error (the text of a ValueError).
    """
    done = subprocess.run(
        [sys.executable, "-P", __file__],
        input=json.dumps({"model": model, "runs": runs, "threads": threads}),
        env={**os.environ, "HF_MODULES_CACHE": str(own), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


class _Told:
    """A streamer that keeps what it is given."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def put(self, value: Any) -> None:
        self.ids += value.flatten().tolist()

    def end(self) -> None:
        self.ids.append(-1)


def run_here(model: str, runs: dict[str, dict[str, Any]], own: Path) -> dict[str, dict[str, Any]]:
    """Return what ``outside`` does of the same runs, from this process: for tests of code, not of its process."""
    from transformers import dynamic_module_utils

    home = patch.object(dynamic_module_utils, "HF_MODULES_CACHE", str(own))
    with home, patch.object(sys, "path", [*sys.path]):
        results = _results(model, runs)
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]
    return results


def _done(model: Any, run: dict[str, Any], passes: list[int]) -> dict[str, Any]:
    import torch
    from transformers import GenerationConfig, MaxLengthCriteria, StoppingCriteriaList

    longest = max(map(len, run["prompts"]))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in run["prompts"]])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in run["prompts"]])
    stop, told = run.get("stop_after"), _Told()
    passes.clear()
    torch.manual_seed(run.get("seed", 0))
    try:
        sequences = model.generate(
            **{run.get("name", "inputs"): ids},
            attention_mask=mask,
            generation_config=GenerationConfig(**run["config"]),
            stopping_criteria=StoppingCriteriaList(
                [MaxLengthCriteria(longest + stop)] if stop else []
            ),
            custom_generate=run["method"],
            trust_remote_code=True,
            streamer=told
            if len(ids) == 1 and not run["config"].get("num_return_sequences")
            else None,
            **run.get("arguments", {}),
        )
    except ValueError as error:
        return {"error": str(error)}
    rows = sequences[:, longest:].tolist()
    return {"rows": rows, "passes": len(passes), "streamed": told.ids}


def _results(folder: str, runs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    passes: list[int] = []
    model.register_forward_hook(lambda *call: passes.append(1))
    return {name: _done(model, run, passes) for name, run in runs.items()}


def _main() -> None:
    import torch

    asked = json.load(sys.stdin)
    torch.set_num_threads(asked["threads"])
    sys.stdout.write(json.dumps(_results(asked["model"], asked["runs"])))


if __name__ == "__main__":
    _main()
