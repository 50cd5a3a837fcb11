"""The example pictures that come along: held-out scenes by their seeds, written as small PNG files.

python -m training.captioner_examples
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from training.scenes import drawn, scene

FOLDER = Path(__file__).parents[1] / "assets" / "media"
TEXTS = "examples.json"


@dataclass(frozen=True)
class Example:
    """A scene by its seed, what it is called, and what is to be seen for who cannot see it."""

    seed: int
    title: str
    alt: str


EXAMPLES = {
    "scene-1": Example(
        1_000_001_181,
        "A circle above a square",
        "A big yellow circle above a small green square.",
    ),
    "scene-2": Example(
        1_000_001_153,
        "A circle between red and orange",
        "A big circle whose colour lies between red and orange, on a light ground.",
    ),
    "scene-3": Example(
        1_000_003_066,
        "A triangle next to two hearts",
        "On the left a small red triangle, on the right two small red hearts.",
    ),
    "scene-4": Example(
        1_000_001_190,
        "A heart inside a triangle",
        "A small red heart inside a big green triangle.",
    ),
    "scene-5": Example(
        1_000_001_161,
        "Four triangles",
        "Four small red triangles, scattered over the picture.",
    ),
    "scene-6": Example(
        1_000_001_098,
        "A star and a heart, aslant",
        "A small blue star, and a small orange heart to its right and below it.",
    ),
}


def write(folder: Path = FOLDER) -> None:
    """Write the pictures and what is said of them; other examples are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TEXTS
    texts = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    texts |= {name: {"title": e.title, "alt": e.alt} for name, e in EXAMPLES.items()}
    path.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for name, example in EXAMPLES.items():
        _small(drawn(scene(example.seed))).save(folder / f"{name}.png", optimize=True)


def _small(image: Image.Image) -> Image.Image:
    """Return the same picture with a palette where 256 colours are enough, which makes a smaller file."""
    colours = image.getcolors(256)
    if colours is None:
        return image
    order = [colour for _, colour in sorted(colours, reverse=True)]
    number = {colour: i for i, colour in enumerate(order)}
    rows = np.asarray(image).tolist()
    small = Image.fromarray(
        np.uint8([[number[tuple(pixel)] for pixel in row] for row in rows]), "L"
    )
    small.putpalette([part for colour in order for part in colour])
    return small


if __name__ == "__main__":
    write()
