"""Let the target write stories, the text its drafts learn from: they must foresee it, not people.

python -m training.write --work WORK --minutes 6
python -m training.write --work WORK --minutes 1 --model assets/models/storyteller --device cuda --batch 4096
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from training import corpus as corpora
from training import tokenizer as tokenizers
from training.corpus import END
from training.train import RECIPES, build

BATCH = 64
NEW_TOKENS = 120
OPENINGS = (8, 16, 24, 32, 40)
GREEDY_SHARE = 0.7
TEMPERATURE = 0.7


def batches(stories: list[list[int]], seed: int = 0, size: int = BATCH) -> list[torch.Tensor]:
    """Return (size, length) openings of training stories, in random order."""
    rng = random.Random(seed)
    by_length: dict[int, list[list[int]]] = {length: [] for length in OPENINGS}
    for ids in stories:
        length = rng.choice(OPENINGS)
        by_length[length].append(ids[:length])
    found = []
    for length, openings in by_length.items():
        usable = [ids for ids in openings if len(ids) == length]
        found += [usable[k : k + size] for k in range(0, len(usable), size)]
    rng.shuffle(found)
    return [torch.tensor(batch) for batch in found]


def continued(model: Any, openings: torch.Tensor, *, greedy: bool) -> list[list[int]]:
    """Return the openings with the model's continuation, up to the end mark."""
    sampling = {"do_sample": False} if greedy else {"do_sample": True, "temperature": TEMPERATURE}
    out = model.generate(
        openings,
        attention_mask=torch.ones_like(openings),
        max_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        **sampling,
    )
    return [row[: row.index(0)] if 0 in row else row for row in out.tolist()]


def read_model(folder: str | None, work: Path) -> Any:
    """Return the exported model of a folder; without one, the target as its training left it."""
    if folder:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model = build(RECIPES["target"]).eval()
    model.load_state_dict(torch.load(work / "target.pt", weights_only=False)["model"])
    return model


def main() -> None:
    """Write for a wall-clock time, each story of the training split opened at most once a round."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--model", help="folder of an exported model, in place of WORK/target.pt")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=BATCH)
    arguments = parser.parse_args()
    corpus = corpora.load(arguments.work)
    tokenizer = tokenizers.read(arguments.work / tokenizers.TARGET)
    stories = [e.ids for e in tokenizer.encode_batch(corpus.stories)]
    model = read_model(arguments.model, arguments.work).to(arguments.device)
    torch.manual_seed(0)
    end = time.monotonic() + arguments.minutes * 60
    rounds = (batches(stories, seed, arguments.batch) for seed in itertools.count())
    with (arguments.work / corpora.WRITTEN).open("w") as file:
        for number, openings in enumerate(tqdm(itertools.chain.from_iterable(rounds))):
            if time.monotonic() > end:
                break
            greedy = (number % 10) < GREEDY_SHARE * 10
            rows = continued(model, openings.to(arguments.device), greedy=greedy)
            file.writelines(f"{text}\n{END}\n" for text in tokenizer.decode_batch(rows))


if __name__ == "__main__":
    main()
