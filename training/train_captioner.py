"""Train the model that says what is in a picture of shapes, on scenes drawn as they are needed.

python -m training.train_captioner --work WORK --minutes 45
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
import torch.multiprocessing
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    VisionEncoderDecoderModel,
    ViTConfig,
    ViTModel,
)

from training.captions import drawn_caption, forms
from training.clock import SAVE_SECONDS, learning_scale, save
from training.optim import Muon
from training.scenes import (
    COLOURS,
    HELD_OUT_FROM,
    PATCH,
    SHAPES,
    SIDE,
    SIZES,
    ShapeScene,
    drawn,
    owners,
)
from training.scenes import scene as scene_of

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<s>", "</s>")
CONTEXT = 32
IGNORED = -100
TELLINGS = 2
"""Captions drawn for each picture."""
TOKENIZER = "captioner_tokenizer.json"
_PATCHES = SIDE // PATCH
_MANY_PIXELS = 16
_INNER_COUNTS = 4
"""By how much a pixel of what lies inside counts more: it seldom has most of a patch."""
_VOCABULARY_SCENES = 4000


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    width: int = 128
    heads: int = 4
    encoder_layers: int = 6
    encoder_inner: int = 256
    decoder_layers: int = 3
    decoder_inner: int = 512


def train_tokenizer(scenes: int = _VOCABULARY_SCENES) -> Tokenizer:
    """Train a byte-level BPE on captions until every word of the grammar is one token.

    Ids 0, 1 and 2 are padding, the start and the end of a caption.
    """
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
    )
    told = ((scene_of(seed), random.Random(seed)) for seed in range(scenes))
    tokenizer.train_from_iterator((drawn_caption(forms(s), rng) for s, rng in told), trainer)
    return tokenizer


def wrap(tokenizer: Tokenizer) -> Any:
    """Return the tokenizer as transformers loads it from a folder."""
    pad, bos, eos = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        model_max_length=CONTEXT,
    )


def build(vocabulary: int, shape: Shape | None = None, seed: int = 0) -> Any:
    """Return an untrained ViT with a GPT-2 that attends to its patches."""
    torch.manual_seed(seed)
    shape = shape or Shape()
    encoder = ViTConfig(
        image_size=SIDE,
        patch_size=PATCH,
        hidden_size=shape.width,
        num_hidden_layers=shape.encoder_layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.encoder_inner,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    decoder = GPT2Config(
        vocab_size=vocabulary,
        n_positions=CONTEXT,
        n_embd=shape.width,
        n_layer=shape.decoder_layers,
        n_head=shape.heads,
        n_inner=shape.decoder_inner,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    model = VisionEncoderDecoderModel(encoder=ViTModel(encoder), decoder=GPT2LMHeadModel(decoder))
    model.config.decoder_start_token_id = BOS
    model.config.pad_token_id, model.config.eos_token_id = PAD, EOS
    return model


def pixels(scenes: list[ShapeScene]) -> torch.Tensor:
    """Return (n, 3, SIDE, SIDE) in [-1, 1], as the image processor makes them."""
    stacked = np.stack([np.asarray(drawn(s)) for s in scenes])
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).float() / 127.5 - 1


_NAMES: tuple[tuple[str, ...], ...] = (SHAPES, tuple(COLOURS), SIZES)
_RELATIONS = ("left", "above", "inside")
LABELS = [*(len(names) + 1 for names in _NAMES), 5, 3, len(_RELATIONS) + 1]
"""How many values each label of a patch has."""


def patch_labels(scene: ShapeScene) -> np.ndarray:
    """Return (labels, patches) of the thing seen in each patch; all are 0 where there is none.

    Its shape, colour and size, each from 1; how many of its group there are; whether that is the
    first or the second group; and the relation between the groups, from 1, 0 for a single group. What
    has two readings is IGNORED.
    """
    seen = owners(scene).reshape(_PATCHES, PATCH, _PATCHES, PATCH).transpose(0, 2, 1, 3)
    areas = (seen.reshape(-1, PATCH**2)[:, :, None] == np.arange(1, len(scene.things) + 1)).sum(1)
    if scene.kind == "inside":
        areas[:, 1] *= _INNER_COUNTS
    owner = np.where(areas.max(1) >= _MANY_PIXELS, areas.argmax(1) + 1, 0)
    table = [[0] * len(LABELS)]
    relations = [_RELATIONS.index(name) + 1 for name, _ in scene.relations] or [0]
    relation = relations[0] if len(relations) == 1 else IGNORED
    for place, group in enumerate(scene.groups, 1):
        of_group = (((group.things[0].shape, 1.0),), group.colours, group.sizes)
        row = [
            names.index(readings[0][0]) + 1 if len(readings) == 1 else IGNORED
            for names, readings in zip(_NAMES, of_group, strict=True)
        ]
        table += [[*row, len(group.things), place, relation]] * len(group.things)
    return np.asarray(table)[owner].T


def batch(seeds: range, tokenizer: Tokenizer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the pixels, the captions' ids padded with IGNORED, and the labels of the patches.

    Returns:
        (n, 3, SIDE, SIDE), (n * TELLINGS, longest) and (n, labels, patches).
    """
    scenes = [scene_of(seed) for seed in seeds]
    texts = []
    for seed, scene in zip(seeds, scenes, strict=True):
        rng, told = random.Random(f"caption {seed}"), forms(scene)
        texts += [drawn_caption(told, rng) for _ in range(TELLINGS)]
    rows = [[*e.ids, EOS] for e in tokenizer.encode_batch(texts)]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [IGNORED] * (longest - len(row)) for row in rows])
    labels = torch.from_numpy(np.stack([patch_labels(scene) for scene in scenes]))
    return pixels(scenes), ids, labels


class Learner(nn.Module):
    """The captioner and, for training only, a linear layer that names what each patch shows."""

    def __init__(self, captioner: Any) -> None:
        super().__init__()
        self.captioner = captioner
        self.patch_head = nn.Linear(captioner.config.encoder.hidden_size, sum(LABELS))

    def forward(self, x: torch.Tensor, ids: torch.Tensor, labels: torch.Tensor) -> Any:
        """Return the captions' mean loss per token and the patches' mean loss."""
        states = self.captioner.encoder(x).last_hidden_state
        told = states.repeat_interleave(len(ids) // len(x), 0)
        loss = self.captioner(encoder_outputs=(told,), labels=ids).loss
        named = self.patch_head(states[:, 1:]).float().split(LABELS, -1)
        losses = [
            F.cross_entropy(scores.flatten(0, 1), labels[:, i].flatten(), ignore_index=IGNORED)
            for i, scores in enumerate(named)
        ]
        return loss, torch.stack(losses).mean()


def _mean_gradients(module: nn.Module) -> None:
    """Give every process the mean of all processes' gradients."""
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    torch.distributed.all_reduce(flat)
    flat /= torch.distributed.get_world_size()
    for g, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        g.copy_(mean.view_as(g))


class CaptionTrainer:
    """Model, optimizer and data of one run, or of the part of it that one of several processes has."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        size: int = 64,
        shape: Shape | None = None,
        matrix_lr: float = 0.02,
        other_lr: float = 3e-3,
        place: tuple[int, int] = (0, 1),
    ) -> None:
        model = build(tokenizer.get_vocab_size(), shape)
        self.learner = Learner(model)
        self.optimizer = Muon(self.learner, matrix_lr, other_lr)
        self.tokenizer, self.size = tokenizer, size
        self.number, self.processes = place
        self.step = 0
        self.seen = 0
        """Scenes seen: the next batch begins with the seed of this number."""

    def batches(self) -> Iterator[Any]:
        """Yield the next batch for ever; counting is left to ``train_step``."""
        start, part = self.seen, self.size // self.processes
        while start + self.size <= HELD_OUT_FROM:
            own = start + self.number * part
            yield batch(range(own, own + part), self.tokenizer)
            start += self.size

    def train_step(self, progress: float, made: Any = None) -> tuple[float, float]:
        """Make one update; ``progress`` in [0, 1] places it on the schedule.

        Returns:
            The loss of the captions and that of the patches.
        """
        made = made or next(self.batches())
        loss, of_patches = self.learner(*made)
        (loss + min(1.0, 2 - 2 * progress) * of_patches).backward()
        if self.processes > 1:
            _mean_gradients(self.learner)
        self.optimizer.step(learning_scale(self.step, progress))
        self.step += 1
        self.seen += self.size
        return loss.item(), of_patches.item()

    def state(self) -> dict[str, Any]:
        """Return a checkpoint."""
        return {
            "learner": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seen": self.seen,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint: the next scenes, the same numbers."""
        self.learner.load_state_dict(state["learner"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seen = state["step"], state["seen"]


def run(work: Path, minutes: float, size: int, place: tuple[int, int] = (0, 1)) -> None:
    """Train for a wall-clock time, saving checkpoints; resumes where it stopped.

    Args:
        work: holds the tokenizer and the checkpoint.
        minutes: in all, those of earlier runs included.
        size: scenes a step, those of all processes together.
        place: number of this process, from 0, and how many there are; the first one has the clock.
    """
    trainer = CaptionTrainer(Tokenizer.from_file(str(work / TOKENIZER)), size, place=place)
    checkpoint, spent = work / "captioner.pt", 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        trainer.resume(saved)
        spent = saved["seconds"]
    started, smooth, saved_at, made = time.monotonic() - spent, None, spent, trainer.batches()
    first = place[0] == 0
    with tqdm(
        total=round(minutes * 60), initial=round(spent), unit="s", mininterval=5, disable=not first
    ) as bar:
        while (progress := _together((time.monotonic() - started) / (minutes * 60), place)) < 1:
            losses = np.asarray(trainer.train_step(progress, next(made)))
            smooth = losses if smooth is None else 0.98 * smooth + 0.02 * losses
            shown = {"loss": f"{smooth[0]:.3f}", "patches": f"{smooth[1]:.3f}"}
            bar.set_postfix(step=trainer.step, **shown, refresh=False)
            seconds = time.monotonic() - started
            bar.update(round(seconds) - bar.n)
            if first and seconds - saved_at > SAVE_SECONDS:
                save(trainer.state() | {"seconds": seconds}, checkpoint)
                saved_at = seconds
    if first:
        save(trainer.state() | {"seconds": minutes * 60}, checkpoint)


def _together(progress: float, place: tuple[int, int]) -> float:
    """Return the first process's progress in all of them."""
    if place[1] == 1:
        return progress
    told = torch.tensor([progress], dtype=torch.float64)
    torch.distributed.broadcast(told, 0)
    return told.item()


def _one_of_several(number: int, processes: int, work: Path, minutes: float, size: int) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", f"file://{work.resolve()}/meeting", rank=number, world_size=processes
    )
    run(work, minutes, size, (number, processes))
    torch.distributed.destroy_process_group()


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--size", type=int, default=64, help="scenes a step")
    parser.add_argument("--processes", type=int, default=1, help="each has one thread")
    arguments = parser.parse_args()
    work, told = arguments.work, (arguments.minutes, arguments.size)
    work.mkdir(parents=True, exist_ok=True)
    if not (work / TOKENIZER).exists():
        train_tokenizer().save(str(work / TOKENIZER))
    if arguments.processes == 1:
        run(work, *told)
        return
    (work / "meeting").unlink(missing_ok=True)
    several = (arguments.processes, work, *told)
    torch.multiprocessing.spawn(_one_of_several, several, nprocs=arguments.processes)


if __name__ == "__main__":
    main()
