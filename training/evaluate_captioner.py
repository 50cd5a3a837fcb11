"""Measure the captioner on held-out scenes, beam search against greedy search; writes docs/captioner.md.

python -m training.evaluate_captioner --write
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoImageProcessor, AutoTokenizer, VisionEncoderDecoderModel

from training.captions import Named, captions, drawn_caption, forms, understood
from training.scenes import HELD_OUT_FROM, LikeThings, ShapeScene, drawn
from training.scenes import scene as scene_of

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "assets" / "models" / "captioner"
PAGE = ROOT / "docs" / "captioner.md"
COMMAND = "python -m training.evaluate_captioner --write"
SCENES = 1000
BEAMS = 4
LONGEST = 30
SHOWN = 6
_AT_ONCE = 100
_MORE = 0.05
"""Nats by which a caption must be likelier to be called so."""


@dataclass(frozen=True)
class ScoredCaption:
    """A caption and its log-probability under the model in nats, the end mark included."""

    text: str
    log_probability: float


@dataclass(frozen=True)
class JudgedScene:
    """One held-out scene with what was said of it."""

    scene: ShapeScene
    right: dict[str, float]
    greedy: ScoredCaption
    beams: ScoredCaption
    sampled: ScoredCaption
    reference: ScoredCaption
    """A caption drawn by the generator."""


class Captioner:
    """The shipped model with plain transformers, in float32 on the CPU."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.model: Any = VisionEncoderDecoderModel.from_pretrained(folder, dtype=torch.float32)
        self.model.eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.processor: Any = AutoImageProcessor.from_pretrained(folder)

    def tell(self, scenes: list[ShapeScene], **settings: Any) -> list[ScoredCaption]:
        """Return what ``generate()`` says of each scene."""
        x = self.pixels(scenes)
        ids = self.model.generate(x, max_new_tokens=LONGEST, **settings)
        texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return [
            ScoredCaption(*pair)
            for pair in zip(texts, self._log_probabilities(x, ids), strict=True)
        ]

    def score(self, scenes: list[ShapeScene], texts: list[str]) -> list[ScoredCaption]:
        """Return given captions, one for each scene, with their log-probabilities."""
        start, end = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        rows = [[start, *self.tokenizer(text)["input_ids"], end] for text in texts]
        padded = [row + [self.tokenizer.pad_token_id] * (LONGEST + 2 - len(row)) for row in rows]
        found = self._log_probabilities(self.pixels(scenes), torch.tensor(padded))
        return [ScoredCaption(*pair) for pair in zip(texts, found, strict=True)]

    def pixels(self, scenes: list[ShapeScene]) -> torch.Tensor:
        """Return (n, 3, height, width) as the image processor makes them."""
        return self.processor([drawn(s) for s in scenes], return_tensors="pt").pixel_values

    @torch.no_grad()
    def _log_probabilities(self, x: torch.Tensor, ids: torch.Tensor) -> list[float]:
        logits = self.model(pixel_values=x, decoder_input_ids=ids[:, :-1]).logits
        chosen = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        # Beam search fills up with end marks, greedy search with padding.
        ends = (ids[:, 1:] == self.tokenizer.eos_token_id).cumsum(-1)
        own = ends.cumsum(-1) <= 1
        return (chosen * own).sum(-1).tolist()


def cases(captioner: Captioner, seeds: range) -> list[JudgedScene]:
    """Return held-out scenes with their captions under greedy search, beam search and sampling."""
    found: list[JudgedScene] = []
    for start in range(0, len(seeds), _AT_ONCE):
        scenes = [scene_of(seed) for seed in seeds[start : start + _AT_ONCE]]
        greedy = captioner.tell(scenes, do_sample=False)
        beams = captioner.tell(scenes, do_sample=False, num_beams=BEAMS)
        torch.manual_seed(start)
        sampled = captioner.tell(scenes, do_sample=True, top_k=0)
        texts = [drawn_caption(forms(s), random.Random(f"held out {s.seed}")) for s in scenes]
        drawn_ones = captioner.score(scenes, texts)
        right = [captions(s) for s in scenes]
        found += map(JudgedScene, scenes, right, greedy, beams, sampled, drawn_ones)
    return found


def mistakes(scene: ShapeScene, caption: str) -> list[tuple[str, str, str]]:
    """Return what a wrong caption gets wrong as (aspect, shown, said).

    The phrases are held against the groups in the order in which they agree better; where that is
    not the order the caption states, its relation is wrong.
    """
    relation, phrases = understood(caption)
    groups = list(scene.groups)
    if scene.kind == "inside":
        groups.reverse()
    if len(phrases) != len(groups):
        return [("number of groups", str(len(groups)), str(len(phrases)))]
    straight = [m for pair in zip(groups, phrases, strict=True) for m in _differences(*pair)]
    turned = [m for pair in zip(groups, phrases[::-1], strict=True) for m in _differences(*pair)]
    shown = " or ".join(name for name, _ in scene.relations)
    if len(groups) == 2 and relation != "and" and len(turned) < len(straight):
        return [*turned, ("relation", shown, f"{relation}, turned")]
    found = min(straight, turned, key=len) if relation == "and" else straight
    if relation not in ("and", *(name for name, _ in scene.relations)) and len(groups) == 2:
        found = [*found, ("relation", shown, relation)]
    return found or [("wording", "", caption)]


def _differences(group: LikeThings, said: Named) -> list[tuple[str, str, str]]:
    found = []
    if len(group.things) != said.number:
        found.append(("count", str(len(group.things)), str(said.number)))
    for aspect, readings, word in (
        ("size", group.sizes, said.size),
        ("colour", group.colours, said.colour),
        ("shape", group.nouns, said.noun),
    ):
        names = [name for name, _ in readings]
        if word is not None and word not in names:
            found.append((aspect, " or ".join(names), word))
    return found


def _share(flags: list[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.1f} % of {len(flags):,}" if flags else "none"


def _likelier(case: JudgedScene) -> bool:
    return case.beams.log_probability > case.greedy.log_probability + _MORE


def shares(found: list[JudgedScene]) -> list[tuple[str, str, str, str]]:
    """Return rows (scenes, greedy, beams, sampling) of the shares of right captions."""
    kinds = {
        "all": found,
        "unambiguous": [c for c in found if c.scene.ambiguous is None],
        "ambiguous": [c for c in found if c.scene.ambiguous],
    }
    for reading in ("size", "colour", "shape", "relation"):
        kinds[f"ambiguous: {reading}"] = [c for c in found if c.scene.ambiguous == reading]
    for kind in ("one", "count", "pair", "groups", "inside"):
        kinds[f"kind: {kind}"] = [c for c in found if c.scene.kind == kind]
    return [
        (
            name,
            *(
                _share([getattr(c, way).text in c.right for c in chosen])
                for way in ("greedy", "beams", "sampled")
            ),
        )
        for name, chosen in kinds.items()
    ]


def confusions(found: list[JudgedScene]) -> list[tuple[str, str, str]]:
    """Return rows (aspect, wrong captions, what was said of what) of greedy search."""
    wrong = [c for c in found if c.greedy.text not in c.right]
    by_aspect: dict[str, Counter[str]] = {}
    captions_of: Counter[str] = Counter()
    for case in wrong:
        found_here = mistakes(case.scene, case.greedy.text)
        captions_of.update({aspect for aspect, _, _ in found_here})
        for aspect, shown, said in found_here:
            by_aspect.setdefault(aspect, Counter())[f"{shown} → {said}"] += 1
    return [
        (aspect, str(captions_of[aspect]), ", ".join(f"{k} ({n})" for k, n in seen.most_common(6)))
        for aspect, seen in sorted(by_aspect.items(), key=lambda item: -captions_of[item[0]])
    ]


def compared(found: list[JudgedScene]) -> list[tuple[str, str]]:
    """Return rows (what, figure) of beam search compared with greedy search, and of the split."""
    n = len(found)
    gains = [c.beams.log_probability - c.greedy.log_probability for c in found]
    right = [(c.greedy.text in c.right, c.beams.text in c.right) for c in found]
    own = [-math.log(c.right[c.reference.text]) for c in found]
    return [
        ("the same caption", _share([c.beams.text == c.greedy.text for c in found])),
        ("beams find a likelier one", _share([_likelier(c) for c in found])),
        ("beams find a less likely one", _share([g < -_MORE for g in gains])),
        ("mean log-probability, greedy", f"{sum(c.greedy.log_probability for c in found) / n:.3f}"),
        ("mean log-probability, beams", f"{sum(c.beams.log_probability for c in found) / n:.3f}"),
        ("beams right where greedy is wrong", str(right.count((False, True)))),
        ("greedy right where beams are wrong", str(right.count((True, False)))),
        (
            "mean cost of a caption drawn by the generator, model",
            f"{-sum(c.reference.log_probability for c in found) / n:.3f}",
        ),
        ("the same under the generator's own probabilities", f"{sum(own) / n:.3f}"),
    ]


def examples(found: list[JudgedScene]) -> list[JudgedScene]:
    """Return scenes where beams beat greedy: first those where greedy is wrong and beams are right."""
    better = [c for c in found if _likelier(c) and c.beams.text in c.right]
    gain = lambda c: c.greedy.log_probability - c.beams.log_probability  # noqa: E731
    return sorted(better, key=lambda c: (c.greedy.text in c.right, gain(c)))[:SHOWN]


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def page(found: list[JudgedScene], parameters: int) -> str:
    """Return docs/captioner.md."""
    first, last = found[0].scene.seed, found[-1].scene.seed
    told = [
        (str(c.scene.seed), *(_judged(c, told) for told in (c.greedy, c.beams)))
        for c in examples(found)
    ]
    return "\n".join(
        [
            "# Captioner: measurements",
            "",
            f"`{COMMAND}` writes this page. It uses n = {len(found):,} held-out scenes,",
            f"seeds {first} to {last} of `training/scenes.py`. The model has {parameters:,} parameters in",
            f"float32. The versions are torch {torch.__version__} and transformers {transformers.__version__}.",
            "",
            f"Greedy search, {BEAMS} beams and sampling at temperature 1 are plain `generate()`. A caption is right",
            "if it is, word for word, one of the captions that the scene generator has for the scene.",
            "",
            "## Right captions",
            "",
            _table(("scenes", "greedy", f"{BEAMS} beams", "sampling"), shares(found)),
            "",
            "## Mistakes in wrong captions",
            "",
            "For greedy search: shown → said, and how often. A caption may have several mistakes.",
            "",
            _table(("what", "captions", "confusions"), confusions(found)),
            "",
            "## Beam search and greedy search",
            "",
            f"Log-probabilities are those of whole captions, in nats. Likelier means by more than {_MORE}.",
            "",
            _table(("what", "figure"), compared(found)),
            "",
            "## Scenes where beam search finds a likelier caption",
            "",
            _table(("seed", "greedy", f"{BEAMS} beams"), told),
            "",
        ]
    )


def _judged(case: JudgedScene, told: ScoredCaption) -> str:
    verdict = "right" if told.text in case.right else "wrong"
    return f"{told.text} ({told.log_probability:.3f}, {verdict})"


def main() -> None:
    """Print the card; write the page where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--scenes", type=int, default=SCENES)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    captioner = Captioner(arguments.folder)
    found = cases(captioner, range(HELD_OUT_FROM, HELD_OUT_FROM + arguments.scenes))
    made = page(found, captioner.model.num_parameters())
    print(made)
    if arguments.write:
        PAGE.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
