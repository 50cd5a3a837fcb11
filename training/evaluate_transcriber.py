"""Measure the transcriber on voices and sentences it was never trained on; writes docs/transcriber.md.

python -m training.evaluate_transcriber --corpus FOLDER --write

Debian's package espeak-ng says the sentences.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoFeatureExtractor, AutoTokenizer, WhisperForConditionalGeneration

from training import speech
from training.speech import (
    ACCENTS,
    HELD_OUT_ACCENTS,
    HELD_OUT_VARIANTS,
    KINDRED_VARIANTS,
    RATE,
    VARIANTS,
    Clip,
)

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "assets" / "models" / "transcriber"
PAGE = ROOT / "docs" / "transcriber.md"
COMMAND = "python -m training.evaluate_transcriber --corpus FOLDER --write"
CLIPS, CLIPS_BESIDE = 800, 400
BEAMS = 4
SHOWN = 8
CONFUSED = 20
WAYS = ("greedy", "beams", "sampled")
_HEAD = ("n", "words", "greedy", f"{BEAMS} beams", "sampling")
_AT_ONCE = 100


@dataclass(frozen=True)
class ScoredTranscript:
    """A transcript and its log-probability under the model in nats, the end mark included."""

    text: str
    log_probability: float


@dataclass(frozen=True)
class JudgedClip:
    """One clip with what was heard in it, by the name of the way."""

    clip: Clip
    heard: dict[str, ScoredTranscript]


class Transcriber:
    """The shipped model with plain transformers, in float32 on the CPU."""

    def __init__(self, folder: Path = FOLDER) -> None:
        load = WhisperForConditionalGeneration.from_pretrained
        self.model: Any = load(folder, dtype=torch.float32)
        self.model.eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.extractor: Any = AutoFeatureExtractor.from_pretrained(folder)

    def hear(self, sounds: Sequence[np.ndarray], **settings: Any) -> list[ScoredTranscript]:
        """Return what ``generate()`` hears in each sound, (n,) at RATE Hz."""
        made = self.extractor(list(sounds), sampling_rate=RATE, return_tensors="pt")
        ids = self.model.generate(made.input_features, **settings)
        texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        found = self._log_probabilities(made.input_features, texts)
        return [ScoredTranscript(*pair) for pair in zip(texts, found, strict=True)]

    @torch.no_grad()
    def _log_probabilities(self, features: torch.Tensor, texts: list[str]) -> list[float]:
        start, end, pad = (
            getattr(self.tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")
        )
        rows = [[start, *self.tokenizer(text)["input_ids"], end] for text in texts]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        logits = self.model(input_features=features, decoder_input_ids=ids[:, :-1]).logits
        chosen = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        return (chosen * (ids[:, 1:] != pad)).sum(-1).tolist()


def spoken(
    name: str, texts: Sequence[str], accents: Sequence[str], variants: Sequence[str], number: int
) -> list[tuple[Clip, np.ndarray]]:
    """Return a number of clips by voices in turn, the same for the same name.

    Args:
        name: what chooses texts and voices.
        texts: from which they are.
        accents: of the voices.
        variants: of the voices.
        number: of clips.
    """
    rng = random.Random(name)
    made = []
    for i in range(number):
        voice = speech.drawn_voice(rng, accents, [variants[i % len(variants)]])
        made.append(speech.said(rng.choice(texts), voice, rng))
    return made


def judged(
    transcriber: Transcriber, clips: list[tuple[Clip, np.ndarray]], ways: Sequence[str] = WAYS
) -> list[JudgedClip]:
    """Return clips with their transcripts under greedy search, beam search and sampling."""
    settings: dict[str, dict[str, Any]] = {
        "greedy": {"do_sample": False},
        "beams": {"do_sample": False, "num_beams": BEAMS},
        "sampled": {"do_sample": True, "temperature": 1.0, "top_k": 0},
    }
    found = []
    for start in range(0, len(clips), _AT_ONCE):
        part = clips[start : start + _AT_ONCE]
        torch.manual_seed(start)
        heard = [transcriber.hear([s for _, s in part], **settings[way]) for way in ways]
        for (clip, _), *told in zip(part, *heard, strict=True):
            found.append(JudgedClip(clip, dict(zip(ways, told, strict=True))))
    return found


def edits(said: Sequence[str], heard: Sequence[str]) -> list[tuple[str, str]]:
    """Return the fewest changes that make the words said those heard, as (word, word); one may be empty."""
    best: list[list[list[tuple[str, str]]]] = [[[]]]
    for word in heard:
        best[0].append([*best[0][-1], ("", word)])
    for i, word in enumerate(said, 1):
        row = [[*best[i - 1][0], (word, "")]]
        for j, other in enumerate(heard, 1):
            changed = [(word, other)] if word != other else []
            ways = (
                best[i - 1][j - 1] + changed,
                [*best[i - 1][j], (word, "")],
                [*row[j - 1], ("", other)],
            )
            row.append(min(ways, key=len))
        best.append(row)
    return best[-1][-1]


def _edits_of(case: JudgedClip, way: str) -> list[tuple[str, str]]:
    return edits(case.clip.text.split(), case.heard[way].text.split())


def word_error_rate(cases: Sequence[JudgedClip], way: str) -> float:
    """Return wrong, missing and added words per word said; may be above 1."""
    wrong = sum(len(_edits_of(case, way)) for case in cases)
    return wrong / sum(len(case.clip.text.split()) for case in cases)


def _rates(name: str, cases: Sequence[JudgedClip], ways: Sequence[str] = WAYS) -> tuple[str, ...]:
    """Return a row: clips, words, the error rate of each way, and how many are right word for word."""
    words = sum(len(case.clip.text.split()) for case in cases)
    rates = [f"{100 * word_error_rate(cases, w):.1f} %" if w in ways else "" for w in WAYS]
    whole = sum(case.heard["greedy"].text == case.clip.text for case in cases)
    return name, f"{len(cases):,}", f"{words:,}", *rates, f"{100 * whole / len(cases):.1f} %"


def by_voice(cases: list[JudgedClip]) -> list[tuple[str, ...]]:
    """Return a row of rates for each variant and each accent."""
    kinds = {
        f"variant {v}": [c for c in cases if c.clip.voice.variant == v] for v in HELD_OUT_VARIANTS
    }
    for accent in (*ACCENTS, *HELD_OUT_ACCENTS):
        held_out = ", held out" if accent in HELD_OUT_ACCENTS else ""
        chosen = [c for c in cases if c.clip.voice.accent == accent]
        kinds[f"accent {accent}{held_out}"] = chosen
    return [_rates(name, chosen) for name, chosen in kinds.items() if chosen]


def confusions(cases: list[JudgedClip]) -> list[tuple[str, str, str]]:
    """Return rows (said, heard, how often) of greedy search's mistakes, the most frequent first."""
    found = Counter(change for case in cases for change in _edits_of(case, "greedy"))
    return [
        (a or "(nothing)", b or "(nothing)", str(n)) for (a, b), n in found.most_common(CONFUSED)
    ]


def beside(cases: list[JudgedClip]) -> list[tuple[str, str]]:
    """Return rows (what, figure) of beam search compared with greedy search."""
    n = len(cases)
    same = sum(c.heard["greedy"].text == c.heard["beams"].text for c in cases)
    fewer = [len(_edits_of(c, "greedy")) - len(_edits_of(c, "beams")) for c in cases]
    gains = [c.heard["beams"].log_probability - c.heard["greedy"].log_probability for c in cases]
    return [
        ("the same transcript", f"{same} of {n}"),
        ("beams have fewer wrong words", f"{sum(f > 0 for f in fewer)} of {n}"),
        ("greedy has fewer wrong words", f"{sum(f < 0 for f in fewer)} of {n}"),
        ("beams find a likelier one", f"{sum(g > 1e-3 for g in gains)} of {n}"),
        ("beams find a less likely one", f"{sum(g < -1e-3 for g in gains)} of {n}"),
    ]


def examples(cases: list[JudgedClip]) -> list[tuple[str, ...]]:
    """Return rows of clips where both differ, those first where beams have fewer wrong words."""
    differ = [c for c in cases if c.heard["greedy"].text != c.heard["beams"].text]
    gain = lambda c: len(_edits_of(c, "beams")) - len(_edits_of(c, "greedy"))  # noqa: E731
    return [
        (
            c.clip.voice.name,
            c.clip.text,
            *(f"{c.heard[w].text} ({c.heard[w].log_probability:.2f})" for w in ("greedy", "beams")),
        )
        for c in sorted(differ, key=gain)[:SHOWN]
    ]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def page(cases: list[JudgedClip], others: dict[str, list[JudgedClip]], parameters: int) -> str:
    """Return docs/transcriber.md.

    Args:
        cases: held-out voices and sentences.
        others: clips of other kinds by what they are, heard with greedy search.
        parameters: of the model.
    """
    head = (*_HEAD, "greedy, all words right")
    rows = [_rates("held-out voices, held-out sentences", cases)]
    new = [c for c in cases if c.clip.voice.accent in HELD_OUT_ACCENTS]
    rows.append(_rates("of these, held-out accent", new))
    rows += [_rates(name, found, ("greedy",)) for name, found in others.items()]
    parts = [
        _opening(len(cases), parameters),
        "## Word error rates",
        _table(("clips of", *head), rows),
        _held_out(),
        "## By voice",
        _table(("voices", *head), by_voice(cases)),
        "## Misheard words",
        f"The {CONFUSED} most frequent changes, for greedy search.",
        _table(("said", "heard", "how often"), confusions(cases)),
        "## Beam search and greedy search",
        _table(("what", "clips"), beside(cases)),
        "Clips where they differ, with log-probabilities in nats. Clips where beams have fewer wrong words are first.",
        _table(("voice", "said", "greedy", f"{BEAMS} beams"), examples(cases)),
    ]
    return "\n\n".join(["# Transcriber: measurements", *parts]) + "\n"


def _opening(clips: int, parameters: int) -> str:
    return f"""\
`{COMMAND}` writes this page.
It uses n = {clips:,} clips that espeak-ng speaks. The model has {parameters:,} parameters in float32.
The versions are torch {torch.__version__} and transformers {transformers.__version__}.

Greedy search, {BEAMS} beams and sampling at temperature 1 are plain `generate()`. The word error rate counts
wrong, missing and added words for each spoken word."""


def _held_out() -> str:
    accents = len(ACCENTS) + len(HELD_OUT_ACCENTS)
    return f"""\
Held-out voices are espeak-ng's variants {", ".join(HELD_OUT_VARIANTS)} in all {accents} accents. No training clip has
one of these variants, or an accent {" or ".join(HELD_OUT_ACCENTS)}. Speed and pitch are drawn as in training.
Held-out sentences are whole sentences of the stories that no training clip contains. Voices similar to trained ones
are {", ".join(KINDRED_VARIANTS)}. They are not in the training data either."""


def measured(folder: Path, texts: speech.SpokenTexts, clips: int) -> str:
    """Return the page of a model's folder."""
    transcriber, everywhere = Transcriber(folder), (*ACCENTS, *HELD_OUT_ACCENTS)
    held_out = spoken("held out", texts.held_out, everywhere, HELD_OUT_VARIANTS, clips)
    fewer = min(clips, CLIPS_BESIDE)
    others = {
        "held-out voices similar to trained ones, held-out sentences": (
            texts.held_out,
            everywhere,
            KINDRED_VARIANTS,
        ),
        "trained voices, held-out sentences": (texts.held_out, ACCENTS, VARIANTS),
        "held-out voices, trained sentences": (texts.sentences, everywhere, HELD_OUT_VARIANTS),
        "trained voices, trained sentences": (texts.sentences, ACCENTS, VARIANTS),
    }
    heard = {
        name: judged(transcriber, spoken(name, *told, fewer), ("greedy",))
        for name, told in others.items()
    }
    return page(judged(transcriber, held_out), heard, transcriber.model.num_parameters())


def main() -> None:
    """Print the card; write the page where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--clips", type=int, default=CLIPS)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    made = measured(arguments.folder, speech.texts_of(arguments.corpus), arguments.clips)
    print(made)
    if arguments.write:
        PAGE.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
