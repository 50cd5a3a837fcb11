"""The example recordings that come along: held-out sentences said by held-out voices, as small FLAC files.

python -m training.transcriber_examples

Debian's package espeak-ng says them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import soundfile

from training.captioner_examples import FOLDER, TEXTS
from training.speech import RATE, Voice, speaker

_PEAK, _STEP = 0.35, 128
"""Loudest sample, and the step between two of them in 32,768ths: a third of the size, a hiss 35 dB below the voice."""


@dataclass(frozen=True)
class SaidExample:
    """What is said by which voice, what it is called, and what is to be heard for who cannot hear it."""

    text: str
    voice: Voice
    title: str
    alt: str
    greedy: str | None = None
    """What greedy search hears where only beam search is right."""


EXAMPLES = {
    "speech-1": SaidExample(
        "once there was a little girl named daisy",
        Voice("en-us", "f3", 170),
        "A girl named Daisy",
        "An American woman's synthetic voice says: Once there was a little girl named Daisy.",
    ),
    "speech-2": SaidExample(
        "the bird was scared and couldn't fly away",
        Voice("en-us-nyc", "Annie", 170),
        "A scared bird",
        "A woman's synthetic voice from New York says: The bird was scared and couldn't fly away.",
    ),
    "speech-3": SaidExample(
        "tim was so excited he ran to his mom",
        Voice("en-gb-x-rp", "m7", 165),
        "Tim is excited",
        "A British man's synthetic voice says: Tim was so excited he ran to his mom.",
    ),
    "speech-4": SaidExample(
        "they decided to look for the toys together",
        Voice("en-gb-x-gbcwmd", "m4", 165),
        "Looking for the toys",
        "A man's synthetic voice from the West Midlands says: They decided to look for the toys together.",
    ),
    "speech-5": SaidExample(
        "you do not know how to be nice",
        Voice("en-gb-x-gbcwmd", "Annie", 171, 53, 29),
        "How to be nice",
        "A woman's synthetic voice from the West Midlands says: You do not know how to be nice.",
        greedy="you do not know out a big nice",
    ),
}


def samples(example: SaidExample) -> np.ndarray:
    """Return the recording, (n,) int16 at RATE Hz."""
    said = speaker().say(example.text, example.voice)
    loud = said * (_PEAK * 32_768 / np.abs(said).max())
    return (np.round(loud / _STEP) * _STEP).astype(np.int16)


def write() -> None:
    """Write the recordings and what is said of them; other examples are left as they are."""
    path = FOLDER / TEXTS
    texts = json.loads(path.read_text("utf-8"))
    texts |= {name: {"title": e.title, "alt": e.alt} for name, e in EXAMPLES.items()}
    path.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for name, example in EXAMPLES.items():
        file = FOLDER / f"{name}.flac"
        soundfile.write(file, samples(example), RATE, "PCM_16", format="FLAC", compression_level=1)


if __name__ == "__main__":
    write()
