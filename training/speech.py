"""Sentences of the stories, said by espeak-ng in many voices; some voices and sentences are never trained on.

python -m training.speech --corpus FOLDER --work WORK --clips 40000

Debian's package espeak-ng is needed here and nowhere else.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import multiprocessing
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from tqdm import tqdm
from transformers import WhisperFeatureExtractor

from training import corpus

RATE = 16_000
SECONDS = 3
HOP = 240
MELS = 40
FRAMES = SECONDS * RATE // HOP
WORDS = 300
SHORTEST, LONGEST = 3, 9
"""Words of a sentence."""
TEXTS = "speech_texts.json"
CLIPS = "speech_clips.json"
FEATURES = "speech_features.npy"
ACCENTS = ("en", "en-us", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-029")
HELD_OUT_ACCENTS = ("en-gb-x-gbcwmd", "en-us-nyc")
VARIANTS = (
    *("m1", "m2", "m3", "m5", "m6", "m8", "f1", "f2", "f4", "f5", "Alex", "Alicia", "Andrea"),
    *("Andy", "Denis", "Diogo", "Gene", "Gene2", "Henrique", "Hugo", "Jacky", "Lee", "Marco"),
    *("Mario", "Mike", "Nguyen", "adam", "anika", "antonio", "aunty", "belinda", "benjamin"),
    *("boris", "caleb", "david", "ed", "edward2", "grandma", "grandpa", "gustave", "iven"),
    *("iven2", "john", "marcelo", "max", "michel", "miguel", "norbert", "paul", "pedro"),
    *("quincy", "rob", "robert", "sandro", "shelby", "steph2", "travis", "victor", "zac"),
)
HELD_OUT_VARIANTS = ("m4", "m7", "f3", "Annie", "pablo")
KINDRED_VARIANTS = ("edward", "iven3", "linda", "Michael", "steph")
"""Held out as well, but in espeak-ng's files they are much like one of VARIANTS."""
_LIBRARY = "libespeak-ng.so.1"
_SYNCHRONOUS, _UTF8, _OK = 2, 1, 0
_RATE_OF_SPEECH, _PITCH, _RANGE = 1, 3, 4
_SEPARATED = ord("_") << 8
_QUIET = 0.002
"""Amplitude below which the end of a clip is silence."""
_MOST_LEAD_S = 0.3
_AT_ONCE = 50
_SENTENCE = re.compile(r"[A-Za-z' ]+(?:, [A-Za-z' ]+)*[.!?]?")


@dataclass(frozen=True)
class SpokenTexts:
    """What is said; all of it in lower case and without punctuation.

    Attributes:
        words: the WORDS most frequent ones of the stories, the most frequent first.
        sentences: whole sentences of these words alone, SHORTEST to LONGEST of them.
        fragments: runs of these words inside other sentences, of the same lengths.
        held_out: whole sentences that are never trained on, nor as fragments.
    """

    words: list[str]
    sentences: list[str]
    fragments: list[str]
    held_out: list[str]


@dataclass(frozen=True)
class Voice:
    """How something is said.

    Attributes:
        accent: espeak-ng's language.
        variant: espeak-ng's variant.
        words_a_minute: 80 to 450.
        pitch: 0 to 100; 50 is the variant's own.
        liveliness: range of the pitch, 0 to 100; 50 is the variant's own.
    """

    accent: str
    variant: str
    words_a_minute: int = 175
    pitch: int = 50
    liveliness: int = 50

    @property
    def name(self) -> str:
        """As espeak-ng's option -v takes it."""
        return f"{self.accent}+{self.variant}"


@dataclass(frozen=True)
class Clip:
    """A text said once, ``lead`` seconds after the window begins."""

    text: str
    voice: Voice
    lead: float


def texts_of(folder: Path) -> SpokenTexts:
    """Read the stories of the corpus and take the sentences apart.

    Args:
        folder: the corpus.
    """
    read = corpus.read(folder)
    said = [
        re.findall(r"[a-z']+", s.lower()) for d in read.stories + read.held_out for s in _split(d)
    ]
    words = [w for w, _ in Counter(w for s in said for w in s).most_common(WORDS)]
    known = set(words)
    whole = {" ".join(s) for s in said if _fits(s) and known.issuperset(s)}
    held_out = {s for s in whole if corpus.is_held_out(s)}
    runs = {" ".join(run) for s in said if not known.issuperset(s) for run in _runs(s, known)}
    return SpokenTexts(words, sorted(whole - held_out), sorted(runs - whole), sorted(held_out))


def _split(document: str) -> list[str]:
    return [s for s in re.split(r"(?<=[.!?])\s+", document) if _SENTENCE.fullmatch(s)]


def _fits(said: Sequence[str]) -> bool:
    return SHORTEST <= len(said) <= LONGEST


def _runs(said: list[str], known: set[str]) -> list[list[str]]:
    """Return the longest runs of known words, cut to what fits."""
    runs: list[list[str]] = [[]]
    for word in said:
        if word in known and len(runs[-1]) < LONGEST:
            runs[-1].append(word)
        else:
            runs.append([word] if word in known else [])
    return [run for run in runs if _fits(run)]


class Synthesiser:
    """espeak-ng in this process; its library can be opened once only."""

    def __init__(self) -> None:
        self._espeak = ctypes.CDLL(_LIBRARY)
        self._rate: int = self._espeak.espeak_Initialize(_SYNCHRONOUS, 0, None, 0)
        self._blocks: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )
        self._kept = kind(self._keep)
        self._espeak.espeak_SetSynthCallback(self._kept)
        self._espeak.espeak_TextToPhonemes.restype = ctypes.c_char_p

    def _keep(self, samples: Any, number: int, events: Any) -> int:
        del events
        if samples and number:
            self._blocks.append(np.ctypeslib.as_array(samples, (number,)).copy())
        return 0

    def say(self, text: str, voice: Voice) -> np.ndarray:
        """Return (n,) float32 in [-1, 1] at RATE Hz; the silence behind it is cut off."""
        self._use(voice.name)
        for parameter, value in (
            (_RATE_OF_SPEECH, voice.words_a_minute),
            (_PITCH, voice.pitch),
            (_RANGE, voice.liveliness),
        ):
            self._espeak.espeak_SetParameter(parameter, value, 0)
        self._blocks.clear()
        data = f"{text.capitalize()}.".encode() + b"\0"
        if self._espeak.espeak_Synth(data, len(data), 0, 1, 0, _UTF8, None, None) != _OK:
            raise RuntimeError(f"espeak-ng does not say {text!r}")
        made = np.concatenate(self._blocks).astype(np.float32) / 32768
        loud = np.flatnonzero(np.abs(made) > _QUIET)
        return soxr.resample(made[: loud[-1] + 1], self._rate, RATE, quality="HQ")

    def phonemes(self, word: str, accent: str = "en-us") -> list[str]:
        """Return how a word is said in an accent, in espeak-ng's own letters, without stress."""
        self._use(accent)
        data = ctypes.c_char_p(word.encode())
        said = self._espeak.espeak_TextToPhonemes(ctypes.byref(data), _UTF8, _SEPARATED).decode()
        return [p for p in re.sub(r"[',%=]", "", said).split("_") if p.strip()]

    def _use(self, voice: str) -> None:
        if self._espeak.espeak_SetVoiceByName(voice.encode()) != _OK:
            raise RuntimeError(f"espeak-ng has no voice {voice!r}")


@functools.cache
def speaker() -> Synthesiser:
    """Return this process's speaker."""
    return Synthesiser()


def feature_extractor() -> Any:
    """Return what makes (MELS, FRAMES) log-mel features of a sound at RATE Hz."""
    return WhisperFeatureExtractor(
        feature_size=MELS, sampling_rate=RATE, hop_length=HOP, chunk_length=SECONDS, n_fft=480
    )


def drawn_voice(rng: random.Random, accents: Sequence[str], variants: Sequence[str]) -> Voice:
    """Return a voice at a speed and a pitch of its own."""
    return Voice(
        rng.choice(accents),
        rng.choice(variants),
        rng.randint(120, 200),
        rng.randint(30, 70),
        rng.randint(25, 75),
    )


def said(text: str, voice: Voice, rng: random.Random) -> tuple[Clip, np.ndarray]:
    """Return a clip and its sound, (n,) at RATE Hz with n at most SECONDS * RATE.

    What would be too long is said quicker, at most four times.
    """
    for _ in range(5):
        samples = speaker().say(text, voice)
        slack = SECONDS - len(samples) / RATE
        if slack >= 0:
            lead = rng.uniform(0, min(_MOST_LEAD_S, slack))
            return Clip(text, voice, lead), np.pad(samples, (int(lead * RATE), 0))
        voice = Voice(**asdict(voice) | {"words_a_minute": int(voice.words_a_minute * 1.2)})
    raise ValueError(f"{text!r} does not fit into {SECONDS} seconds")


def trained_clip(number: int, texts: SpokenTexts) -> tuple[Clip, np.ndarray]:
    """Return the clip of a number: as often a whole sentence as a fragment, in a voice of training."""
    rng = random.Random(f"clip {number}")
    text = rng.choice(texts.sentences if number % 2 else texts.fragments)
    return said(text, drawn_voice(rng, ACCENTS, VARIANTS), rng)


def _features(part: tuple[int, int, SpokenTexts]) -> tuple[list[Clip], np.ndarray]:
    first, last, texts = part
    made = [trained_clip(number, texts) for number in range(first, last)]
    extract = feature_extractor()
    found = extract([s for _, s in made], sampling_rate=RATE, return_tensors="np")
    return [clip for clip, _ in made], found.input_features.astype(np.float16)


def write_clips(texts: SpokenTexts, work: Path, clips: int, processes: int = 2) -> None:
    """Write the texts, the clips and their features for training.

    Args:
        texts: what is said.
        work: where FEATURES, (clips, MELS, FRAMES) float16, and the lists are written.
        clips: how many.
        processes: that speak.
    """
    (work / TEXTS).write_text(json.dumps(asdict(texts)))
    parts = [(n, min(n + _AT_ONCE, clips), texts) for n in range(0, clips, _AT_ONCE)]
    shape = (clips, MELS, FRAMES)
    array = np.lib.format.open_memmap(work / FEATURES, "w+", np.float16, shape)
    listed: list[Any] = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for made, features in tqdm(pool.imap(_features, parts), total=len(parts), mininterval=5):
            array[len(listed) : len(listed) + len(made)] = features
            listed += map(asdict, made)
    array.flush()
    (work / CLIPS).write_text(json.dumps(listed))


def read_texts(work: Path) -> SpokenTexts:
    """Return what ``write_clips`` wrote."""
    return SpokenTexts(**json.loads((work / TEXTS).read_text()))


def main() -> None:
    """Parse the command line and speak."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=40_000)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    texts = texts_of(arguments.corpus)
    write_clips(texts, arguments.work, arguments.clips, arguments.processes)


if __name__ == "__main__":
    main()
