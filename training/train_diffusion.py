"""Train the masked diffusion model, and measure its bound and its texts.

python -m training.train_diffusion --work WORK --minutes 6 --device cuda
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

from engine.models.eight_bits import pack, unpack
from training import corpus as corpora
from training import masked_diffusion as diffusion
from training import tokenizer as tokenizers
from training.clock import learning_scale, save
from training.documents import Documents
from training.optim import Muon

CHECKPOINT = "diffusion.pt"
LENGTHS = (64, 128)
WRITTEN_SHARE = 0.7
SAVE_SECONDS = 60
PROMPT_TOKENS, NEW_TOKENS, PROMPTS = 10, 38, 48
STEPS = (8, 16, 32)
SAMPLES = 20
_HELD_OUT_SEED = 7


class DiffusionTrainer:
    """The model, its optimizer and its clock.

    Args:
        work: where the checkpoint is; training goes on from it.
        minutes: how long the whole training takes.
        device: of the training.
    """

    def __init__(self, work: Path, minutes: float, device: str) -> None:
        self.path, self.seconds = work / CHECKPOINT, minutes * 60
        self.model = diffusion.build().to(device)
        self.optimizer = Muon(self.model, matrix_lr=0.02, other_lr=3e-3)
        self.step, self.spent = 0, 0.0
        compiled = device != "cpu"
        self.bound = torch.compile(diffusion.bound, dynamic=False) if compiled else diffusion.bound
        if self.path.exists():
            saved = torch.load(self.path, weights_only=False, map_location=device)
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step, self.spent = saved["step"], saved["spent"]

    def train_step(self, ids: torch.Tensor) -> torch.Tensor:
        """Make one update; return the loss."""
        noisy, weights = diffusion.hide(ids)
        with torch.autocast(ids.device.type, torch.bfloat16):
            loss = self.bound(self.model, ids, noisy, weights)
        loss.backward()
        self.optimizer.step(learning_scale(self.step, self.spent / self.seconds))
        self.step += 1
        return loss.detach()

    def save(self) -> None:
        """Write the checkpoint."""
        save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "spent": self.spent,
            },
            self.path,
        )


@torch.no_grad()
def held_out_bound(model: Any, documents: Documents, rows: int = 512) -> float:
    """Return the bound on held-out stories, nats per token, always for the same rows and noise."""
    state = torch.get_rng_state()
    torch.manual_seed(_HELD_OUT_SEED)
    ids = documents.windows(rows, LENGTHS[0])
    noise = torch.Generator(ids.device).manual_seed(_HELD_OUT_SEED)
    found = []
    for part in ids.split(128):
        noisy, weights = diffusion.hide(part, noise)
        logits = diffusion.logits_of(model, noisy)
        loss = F.cross_entropy(logits.flatten(0, 1), part.flatten(), reduction="none")
        found.append(float((loss * weights.flatten()).mean()))
    torch.set_rng_state(state)
    return round(sum(found) / len(found), 3)


@torch.no_grad()
def perplexity(judge: Any, texts: torch.Tensor) -> float:
    """Return the perplexity of (rows, length) texts under a judge, from the prompt to the end mark."""
    logits = judge(texts).logits[:, PROMPT_TOKENS - 1 : -1].float()
    new = texts[:, PROMPT_TOKENS:]
    loss = F.cross_entropy(logits.transpose(1, 2), new, reduction="none")
    ends = (new == 0).cumsum(1)
    judged = (ends == 0) | ((ends == 1) & (new == 0))
    return round(math.exp(float(loss[judged].mean())), 2)


def distinct_pairs(texts: torch.Tensor) -> float:
    """Return the share of different pairs among all pairs of neighbouring new tokens."""
    new = [t for row in texts.tolist() for t in row[PROMPT_TOKENS:]]
    pairs = list(itertools.pairwise(new))
    return round(len(set(pairs)) / len(pairs), 3)


def measure_texts(model: Any, judge: Any, held_out: torch.Tensor) -> dict[str, Any]:
    """Return perplexity under the judge and distinct-2 of texts of both models and of people."""
    prompts = held_out[:, :PROMPT_TOKENS]
    texts = {"people": held_out}
    for temperature in (0.0, 0.7, 1.0):
        sampling = {"temperature": temperature, "top_k": 0} if temperature else {}
        texts[f"left to right, T {temperature}"] = judge.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=temperature > 0,
            pad_token_id=0,
            **sampling,
        )
    for steps in (*STEPS, NEW_TOKENS):
        for temperature in (0.0, 0.7):
            name = f"{steps} steps, T {temperature}"
            texts[name] = diffusion.write(
                model, prompts, NEW_TOKENS, steps, temperature=temperature
            )
    texts["16 steps, random order"] = diffusion.write(
        model, prompts, NEW_TOKENS, 16, order="random"
    )
    return {
        name: {"perplexity": perplexity(judge, rows), "distinct_2": distinct_pairs(rows)}
        for name, rows in texts.items()
    }


def held_out_prompts(tokenizer: Any, texts: list[str], device: str) -> torch.Tensor:
    """Return (PROMPTS, prompt + new) tokens of held-out stories."""
    length = PROMPT_TOKENS + NEW_TOKENS
    rows = [e.ids[:length] for e in tokenizer.encode_batch(texts)]
    return torch.tensor([row for row in rows if len(row) == length][:PROMPTS], device=device)


def samples(model: Any, tokenizer: Any, held_out: torch.Tensor) -> list[dict[str, Any]]:
    """Return the first texts of every number of steps, as they come."""
    prompts = held_out[:SAMPLES, :PROMPT_TOKENS]
    return [
        {"steps": steps, "text": tokenizer.decode(row, skip_special_tokens=False)}
        for steps in (*STEPS, NEW_TOKENS)
        for row in diffusion.write(model, prompts, NEW_TOKENS, steps).tolist()
    ]


def train(
    trainer: DiffusionTrainer, corpus: corpora.Corpus, tokenizer: Any, tokens: int
) -> Documents:
    """Train until the time is over; return the held-out stories."""
    began, device = time.monotonic(), str(trainer.model.device)
    own = Documents(corpus.written, tokenizer, device)
    people = Documents(corpus.stories + corpus.books, tokenizer, device)
    held_out = Documents(corpus.held_out, tokenizer, device)
    print(len(own), "written tokens,", len(people), "of people", flush=True)
    before, saved = trainer.spent - (time.monotonic() - began), 0.0
    while trainer.spent < trainer.seconds:
        length = LENGTHS[trainer.step % len(LENGTHS)]
        rows = tokens // length
        mine = int(rows * WRITTEN_SHARE)
        parts = [own.windows(mine, length), people.windows(rows - mine, length)]
        # Shuffled, so that every source has rows of all amounts of noise.
        ids = torch.cat(parts)[torch.randperm(rows, device=device)]
        loss = trainer.train_step(ids)
        if trainer.step % 100 == 0:
            print(trainer.step, round(trainer.spent), round(float(loss), 3), flush=True)
        trainer.spent = before + time.monotonic() - began
        if trainer.spent - saved > SAVE_SECONDS:
            saved = trainer.spent
            trainer.save()
            print({"held_out_bound": held_out_bound(trainer.model, held_out)}, flush=True)
    trainer.save()
    return held_out


def main() -> None:
    """Train for a wall-clock time, then measure with the weights at 8 bits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--model", default="assets/models/storyteller")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=131_072, help="of a step")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = tokenizers.read(Path(arguments.model) / tokenizers.TARGET)
    corpus = corpora.load(arguments.work, with_written=True)
    trainer = DiffusionTrainer(arguments.work, arguments.minutes, arguments.device)
    held_out = train(trainer, corpus, tokenizer, arguments.tokens)
    model = trainer.model.eval()
    whole = held_out_bound(model, held_out)
    model.load_state_dict(unpack(pack(model.state_dict())))
    result = {
        "steps": trainer.step,
        "parameters": sum(p.numel() for p in model.parameters()),
        "held_out_bound": whole,
        "held_out_bound_8_bits": held_out_bound(model, held_out),
    }
    print(json.dumps(result), flush=True)
    judge = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    judge = judge.to(arguments.device).eval()
    prompts = held_out_prompts(tokenizer, corpus.held_out, arguments.device)
    result["texts"] = measure_texts(model, judge, prompts)
    print(json.dumps(result), flush=True)
    result["samples"] = samples(model, tokenizer, prompts)
    (arguments.work / "diffusion.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
