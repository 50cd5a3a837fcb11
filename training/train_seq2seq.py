"""Train the T5 that restores damaged sentences.

python -m training.train_seq2seq --work WORK --minutes 25
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import T5Config, T5ForConditionalGeneration

from training import corpus as corpora
from training import tokenizer as tokenizers
from training.damage import damaged, sentences
from training.optim import Muon

PAD, EOS = 0, 1
BATCH = 48
POOL = 32
WARM_UP_STEPS = 100
STEADY_SHARE = 0.5
SAVE_EVERY = 200
IGNORED = -100


def build(
    seed: int = 0, vocabulary: int = tokenizers.SIZES[tokenizers.SEQ2SEQ], **shape: int
) -> Any:
    """Return an untrained T5 of 3 million parameters, or of another ``shape``."""
    torch.manual_seed(seed)
    sizes = {"d_model": 192, "d_kv": 48, "num_heads": 4, "d_ff": 512, "num_layers": 4,
             "num_decoder_layers": 3} | shape  # fmt: skip
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=vocabulary,
            dropout_rate=0.0,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=PAD,
            relative_attention_num_buckets=32,
            relative_attention_max_distance=64,
            **sizes,
        )
    )


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    """Return (batch, longest) ids."""
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def batches(
    texts: list[str], tokenizer: Tokenizer, size: int, seed: int = 0
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (damaged ids padded, whole ids padded with IGNORED) for ever, similar lengths together."""
    rng = random.Random(seed)
    while True:
        pool = [rng.choice(texts) for _ in range(size * POOL)]
        sources = [e.ids for e in tokenizer.encode_batch([damaged(t, rng) for t in pool])]
        targets = [e.ids for e in tokenizer.encode_batch(pool)]
        order = sorted(range(len(pool)), key=lambda i: len(targets[i]))
        starts = list(range(0, len(order), size))
        rng.shuffle(starts)
        for start in starts:
            chosen = order[start : start + size]
            yield (
                padded([sources[i] for i in chosen], PAD),
                padded([targets[i] for i in chosen], IGNORED),
            )


class Seq2SeqTrainer:
    """Model, optimizer and data of one run."""

    def __init__(self, texts: list[str], tokenizer: Tokenizer, batch: int = BATCH, **shape: int):
        self.model = build(vocabulary=tokenizer.get_vocab_size(), **shape)
        self.optimizer = Muon(self.model, matrix_lr=0.01)
        self.batches = batches(texts, tokenizer, batch)
        self.step = 0

    def train_step(self, progress: float) -> float:
        """Make one update; ``progress`` in [0, 1] places it on the schedule. Returns the loss."""
        sources, targets = next(self.batches)
        with torch.autocast("cpu", torch.bfloat16):
            loss = self.model(
                input_ids=sources, attention_mask=(sources != PAD).long(), labels=targets
            ).loss
        loss.backward()
        decay = 1.0 if progress < STEADY_SHARE else max(0.02, (1 - progress) / (1 - STEADY_SHARE))
        self.optimizer.step(min(1.0, (self.step + 1) / WARM_UP_STEPS) * decay)
        self.step += 1
        return loss.item()

    def state(self) -> dict[str, Any]:
        """Return a checkpoint."""
        optimizer = self.optimizer.state_dict()
        return {"model": self.model.state_dict(), "optimizer": optimizer, "step": self.step}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint: the same batches, the same numbers."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for _ in range(state["step"]):
            next(self.batches)
        self.step = state["step"]


def run(work: Path, minutes: float) -> None:
    """Train for a wall-clock time, saving checkpoints; resumes where it stopped."""
    texts = sentences(corpora.load(work).stories)
    tokenizer = tokenizers.read(work / tokenizers.SEQ2SEQ)
    trainer = Seq2SeqTrainer(texts, tokenizer)
    checkpoint, spent = work / "seq2seq.pt", 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        trainer.resume(saved)
        spent = saved["seconds"]
    started, smooth = time.monotonic() - spent, None
    with tqdm(total=round(minutes * 60), initial=round(spent), unit="s") as bar:
        while (seconds := time.monotonic() - started) < minutes * 60:
            loss = trainer.train_step(seconds / (minutes * 60))
            smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
            bar.set_postfix(step=trainer.step, loss=f"{smooth:.3f}")
            bar.update(round(time.monotonic() - started) - bar.n)
            if trainer.step % SAVE_EVERY == 0:
                torch.save(trainer.state() | {"seconds": time.monotonic() - started}, checkpoint)
    torch.save(trainer.state() | {"seconds": minutes * 60}, checkpoint)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=25)
    arguments = parser.parse_args()
    run(arguments.work, arguments.minutes)


if __name__ == "__main__":
    main()
