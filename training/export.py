"""Write a trained model as a folder that plain transformers loads: fp16 shards under 15 MB.

python -m training.export target --work FOLDER --to assets/models/storyteller
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from training import tokenizer as tokenizers
from training.train import CONTEXT, RECIPES, build


def export(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save weights, configuration and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model = model.half().eval()
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=0, pad_token_id=0)
    model.save_pretrained(folder, max_shard_size="14MB")
    tokenizers.wrap(tokenizer, CONTEXT).save_pretrained(folder)


def main() -> None:
    """Parse the command line and export."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", choices=RECIPES)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    recipe = RECIPES[arguments.model]
    model = build(recipe)
    saved = torch.load(arguments.work / f"{arguments.model}.pt", weights_only=False)
    model.load_state_dict(saved["model"])
    name = "foreign_tokenizer.json" if recipe.foreign else "tokenizer.json"
    export(model, tokenizers.read(arguments.work / name), arguments.to)


if __name__ == "__main__":
    main()
