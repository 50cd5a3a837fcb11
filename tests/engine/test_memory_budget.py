"""The memory of a process in which models come and go stays within its budget, and what is freed is given back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers.models import tiny_llama
from tests.helpers.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
ALLOWANCE = 0.25
"""Of one model, beyond the budget: what is read of a file while it is turned into float32, and a run's own."""
SIZES = {
    # Matrices of 1 to 3 MB, as real models have: those are what a C library keeps when they are freed.
    "small": {"hidden_size": 512, "intermediate_size": 1536, "layers": 10},
    "large": {"hidden_size": 640, "intermediate_size": 2560, "layers": 20},
}


@pytest.fixture(params=["small", pytest.param("large", marks=pytest.mark.nightly)])
def folders(request, tmp_path):
    """Return three folders of a model in bfloat16, which is held as float32, and the megabytes of that."""
    values = dict(SIZES[request.param])
    model = tiny_llama(values.pop("layers"), vocab_size=512, **values)
    size = sum(p.numel() for p in model.parameters()) * 4 / 1e6
    first, *others = [tmp_path / str(number) for number in range(3)]
    model.to(torch.bfloat16).save_pretrained(first)
    del model
    tokenizer(first)
    for folder in others:
        folder.mkdir()
        for path in first.iterdir():
            os.link(path, folder / path.name)
    return [str(folder) for folder in (first, *others)], size


def tokenizer(folder):
    """Write a tokenizer of few tokens."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(300)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(folder)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux tells it")
def test_models_that_come_and_go_stay_within_the_budget(folders):
    names, size = folders
    budget = 2.2 * size
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.memory_probe", *names],
        env=os.environ
        | {"PLAYGROUND_MAX_MODEL_MEMORY_GB": str(budget / 1000), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # Two of them are held and the third takes the place of the one that was used longest ago.
    assert [run["models"] for run in told["runs"][2:]] == [2] * 7
    assert all(run["held"] <= budget for run in told["runs"])
    most = max(run["most"] for run in told["runs"]) - told["before"]
    assert most <= budget + ALLOWANCE * size, told
