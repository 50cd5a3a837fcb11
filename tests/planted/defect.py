"""What a planted defect is: a text of one file, and another that stands in its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Defect:
    """One defect.

    Attributes:
        name: short, with hyphens.
        says: what is wrong then, and whom it would harm, in a sentence.
        file: where it is planted, from the project's root.
        text: what stands there once and is right.
        instead: what is put in its place.
        tests: that have to fail, as ``file::name``; those of scripts are named by their sentence.
    """

    name: str
    says: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def planted(self, source: str) -> str:
        """Return a file's source with the defect in it.

        Raises:
            ValueError: the text does not stand there exactly once.
        """
        if source.count(self.text) != 1:
            raise ValueError(f"{self.file} has the text of {self.name} {source.count(self.text)}×.")
        return source.replace(self.text, self.instead)


def is_script(test: str) -> bool:
    """Return whether a test is one of the page's scripts, which node runs."""
    return test.split("::", maxsplit=1)[0].endswith(".mjs")
