"""Train the model that writes down what is said, on the clips of ``training.speech``.

python -m training.train_transcriber --work WORK --minutes 45
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, WhisperConfig, WhisperForConditionalGeneration

from training import speech
from training.clock import SAVE_SECONDS, learning_scale, save
from training.optim import Muon

PAD, BOS, EOS, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
CONTEXT = 16
IGNORED = -100
CHECKPOINT = "transcriber.pt"
_BLANK = 0
"""Of both alignments: no word has the number of the padding."""
_SPELT_AT = 2
"""The encoder's layer whose states name sounds; those of the last one name words."""
_ALIGNED = 0.3
"""Weight of each alignment's loss."""
_SMOOTHED = 0.05
_UNHEARD = 0.1
"""Share of the words before that the decoder is not told, so that it listens."""


@dataclass(frozen=True)
class TranscriberShape:
    """Sizes of the model."""

    width: int = 96
    heads: int = 4
    encoder_layers: int = 4
    decoder_layers: int = 2
    inner: int = 256


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """Return a tokenizer with a token for each word, and one for all others.

    Ids 0 to 3 are padding, the start and the end of a text, and an unknown word.
    """
    known = {name: i for i, name in enumerate((*SPECIAL, *(f"▁{word}" for word in words)))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token=SPECIAL[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


def wrap(tokenizer: Tokenizer) -> Any:
    """Return the tokenizer as transformers loads it from a folder."""
    pad, bos, eos, unknown = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        unk_token=unknown,
        model_max_length=CONTEXT,
    )


def build(vocabulary: int, shape: TranscriberShape | None = None, seed: int = 0) -> Any:
    """Return an untrained Whisper with a window of ``speech.SECONDS``."""
    torch.manual_seed(seed)
    shape = shape or TranscriberShape()
    config = WhisperConfig(
        vocab_size=vocabulary,
        num_mel_bins=speech.MELS,
        max_source_positions=speech.FRAMES // 2,
        max_target_positions=CONTEXT,
        d_model=shape.width,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.inner,
        decoder_ffn_dim=shape.inner,
        dropout=0.0,
        init_std=0.04,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return WhisperForConditionalGeneration(config)


@dataclass(frozen=True)
class HeardBatch:
    """Clips with what is said in them.

    Attributes:
        features: (n, MELS, FRAMES) float32.
        words: (n, longest) ids of the words and EOS, filled up with IGNORED.
        sounds: (n, longest) numbers of the phonemes from 1, filled up with _BLANK.
    """

    features: torch.Tensor
    words: torch.Tensor
    sounds: torch.Tensor


class AlignedLearner(nn.Module):
    """The transcriber and, for training only, two linear layers that align its encoder with what is said."""

    def __init__(self, transcriber: Any, phonemes: int) -> None:
        super().__init__()
        self.transcriber = transcriber
        config = transcriber.config
        self.word_head = nn.Linear(config.d_model, config.vocab_size)
        self.sound_head = nn.Linear(config.d_model, phonemes + 1)

    def forward(self, batch: HeardBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the mean losses per token of the text, of the words' and of the sounds' alignment."""
        encoder = self.transcriber.get_encoder()
        heard = encoder(batch.features, output_hidden_states=True)
        told = batch.words.masked_fill(batch.words == IGNORED, PAD)
        before = F.pad(told[:, :-1], (1, 0), value=BOS)
        unheard = (torch.rand(before.shape) < _UNHEARD) & (before >= len(SPECIAL))
        logits = self.transcriber(
            encoder_outputs=(heard.last_hidden_state,),
            decoder_input_ids=before.masked_fill(unheard, UNKNOWN),
            use_cache=False,
        ).logits
        text = F.cross_entropy(
            logits.flatten(0, 1),
            batch.words.flatten(),
            ignore_index=IGNORED,
            label_smoothing=_SMOOTHED,
        )
        layer = min(_SPELT_AT, len(heard.hidden_states) - 1)
        words = _alignment(
            self.word_head(heard.last_hidden_state), told.masked_fill(told == EOS, 0)
        )
        return text, words, _alignment(self.sound_head(heard.hidden_states[layer]), batch.sounds)


def _alignment(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the CTC loss per target of (n, positions, kinds) scores; targets are filled up with _BLANK."""
    n, positions, _ = scores.shape
    lengths = (targets != _BLANK).sum(1)
    return F.ctc_loss(
        scores.float().log_softmax(-1).transpose(0, 1),
        targets,
        torch.full((n,), positions),
        lengths,
        blank=_BLANK,
        zero_infinity=True,
    )


def augmented(features: torch.Tensor) -> torch.Tensor:
    """Return clips as longer or shorter throats, other microphones and noise would make them.

    Args:
        features: (n, MELS, FRAMES) as the feature extractor makes them: log10 of the power, divided by 4.
    """
    n = len(features)
    changed = _throats(features) + _between(n, -0.4, 0.15)
    loudest = changed.amax((1, 2), keepdim=True)
    grain = torch.empty_like(changed).exponential_().clamp_min(1e-3).log10() / 4
    noise = loudest - _between(n, 0.9, 2.5) + grain
    scale = 4 * math.log(10)
    changed = torch.logaddexp(changed * scale, noise * scale) / scale
    return _masked(_masked(changed, 1, 7), 2, 20)


def _between(n: int, least: float, most: float) -> torch.Tensor:
    return torch.empty(n, 1, 1).uniform_(least, most)


def _throats(features: torch.Tensor) -> torch.Tensor:
    """Return the clips with their spectra stretched by up to 10 % and shifted by up to a mel bin."""
    n, mels, _ = features.shape
    middle = (mels - 1) / 2
    places = (torch.arange(mels)[None, :, None] - middle) * _between(n, 0.9, 1.1) + middle
    places = (places + _between(n, -1, 1)).clamp(0, mels - 1)
    below = places.floor().clamp(max=mels - 2)
    share = places - below
    index = below.long().expand_as(features)
    return features.gather(1, index) * (1 - share) + features.gather(1, index + 1) * share


def _masked(features: torch.Tensor, along: int, widest: int) -> torch.Tensor:
    """Return the clips with one stretch of mel bins (1) or frames (2) hidden."""
    n, size = len(features), features.shape[along]
    shape = [n, 1, 1]
    width = torch.rand(shape) * widest
    start = torch.rand(shape) * (size - width)
    places = torch.arange(size).view([1, size, 1] if along == 1 else [1, 1, size])
    return features.masked_fill((places >= start) & (places < start + width), 0.0)


@dataclass(frozen=True)
class Clips:
    """What a run learns from.

    Attributes:
        tokenizer: of its words.
        features: (n, MELS, FRAMES) of any precision.
        words: ids of what is said in each clip, EOS at the end.
        sounds: numbers of its phonemes, from 1.
        phonemes: how many there are.
    """

    tokenizer: Tokenizer
    features: np.ndarray
    words: list[list[int]]
    sounds: list[list[int]]
    phonemes: int

    def __len__(self) -> int:
        return len(self.words)

    def batch(self, chosen: Sequence[int]) -> HeardBatch:
        """Return clips by their numbers."""
        features = torch.from_numpy(self.features[chosen].astype(np.float32))
        words = _filled([self.words[i] for i in chosen], IGNORED)
        return HeardBatch(features, words, _filled([self.sounds[i] for i in chosen], _BLANK))


def read_clips(work: Path) -> Clips:
    """Return what ``training.speech`` wrote, its words and phonemes numbered."""
    texts = speech.read_texts(work)
    tokenizer = word_tokenizer(texts.words)
    said = [clip["text"] for clip in json.loads((work / speech.CLIPS).read_text())]
    words = [[*e.ids, EOS] for e in tokenizer.encode_batch(said)]
    spelling = {word: speech.speaker().phonemes(word) for word in texts.words}
    number = {p: i for i, p in enumerate(sorted(set(chain(*spelling.values()))), 1)}
    sounds = [[number[p] for word in text.split() for p in spelling[word]] for text in said]
    features = np.load(work / speech.FEATURES, mmap_mode="r")
    return Clips(tokenizer, features, words, sounds, len(number))


def _filled(rows: list[list[int]], filling: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [filling] * (longest - len(row)) for row in rows])


class TranscriberTrainer:
    """Model, optimizer and data of one run."""

    def __init__(
        self,
        clips: Clips,
        size: int = 64,
        shape: TranscriberShape | None = None,
        matrix_lr: float = 0.02,
        other_lr: float = 3e-3,
    ) -> None:
        transcriber = build(clips.tokenizer.get_vocab_size(), shape)
        self.learner = AlignedLearner(transcriber, clips.phonemes)
        self.optimizer = Muon(self.learner, matrix_lr, other_lr)
        self.clips, self.size = clips, size
        self.step = 0

    def batches(self) -> Iterator[HeardBatch]:
        """Yield the batches from the next step on, for ever: all clips in an order of their own each time."""
        each = len(self.clips) // self.size
        for number in range(self.step // each, 2**31):
            order = np.random.default_rng(number).permutation(len(self.clips))
            for place in range(self.step % each, each):
                yield self.clips.batch(order[place * self.size : (place + 1) * self.size])

    def train_step(self, progress: float, batch: HeardBatch) -> tuple[float, float, float]:
        """Make one update; ``progress`` in [0, 1] places it on the schedule.

        Returns:
            The losses of the text, of the words' and of the sounds' alignment.
        """
        torch.manual_seed(self.step)
        changed = HeardBatch(augmented(batch.features), batch.words, batch.sounds)
        text, words, sounds = self.learner(changed)
        (text + _ALIGNED * (words + sounds)).backward()
        self.optimizer.step(learning_scale(self.step, progress))
        self.step += 1
        return text.item(), words.item(), sounds.item()

    def state(self) -> dict[str, Any]:
        """Return a checkpoint."""
        return {
            "learner": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint: the next clips, the same numbers."""
        self.learner.load_state_dict(state["learner"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]


def run(work: Path, minutes: float, size: int) -> None:
    """Train for a wall-clock time, saving checkpoints; resumes where it stopped.

    Args:
        work: holds the clips and the checkpoint.
        minutes: in all, those of earlier runs included.
        size: clips a step.
    """
    trainer = TranscriberTrainer(read_clips(work), size)
    checkpoint, spent = work / CHECKPOINT, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        trainer.resume(saved)
        spent = saved["seconds"]
    started, smooth, saved_at = time.monotonic() - spent, None, spent
    batches = trainer.batches()
    with tqdm(total=round(minutes * 60), initial=round(spent), unit="s", mininterval=5) as bar:
        while (seconds := time.monotonic() - started) < minutes * 60:
            losses = np.asarray(trainer.train_step(seconds / (minutes * 60), next(batches)))
            smooth = losses if smooth is None else 0.98 * smooth + 0.02 * losses
            names = ("text", "words", "sounds")
            shown = {name: f"{loss:.3f}" for name, loss in zip(names, smooth, strict=True)}
            bar.set_postfix(step=trainer.step, **shown, refresh=False)
            bar.update(round(seconds) - bar.n)
            if seconds - saved_at > SAVE_SECONDS:
                save(trainer.state() | {"seconds": seconds}, checkpoint)
                saved_at = seconds
    save(trainer.state() | {"seconds": minutes * 60}, checkpoint)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--size", type=int, default=64, help="clips a step")
    arguments = parser.parse_args()
    run(arguments.work, arguments.minutes, arguments.size)


if __name__ == "__main__":
    main()
