"""The training text: reading, the held-out split, and an endless mixture of packed documents."""

from __future__ import annotations

import hashlib
import lzma
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

END = "<|endoftext|>"
STORIES = ("tinystories_cased.txt.xz", "tinystories_truecased.txt.xz")
_SHUFFLE_POOL = 512


@dataclass(frozen=True)
class Corpus:
    """Documents by source; ``held_out`` is never trained on."""

    stories: list[str]
    held_out: list[str]
    books: list[str]
    classics: list[str]
    facts: list[str]


def is_held_out(document: str) -> bool:
    """Decide by the document's own hash: about 5 %, the same on every machine."""
    return int(hashlib.sha256(document.encode()).hexdigest(), 16) % 20 == 0


def read(folder: Path) -> Corpus:
    """Read the corpus folder (xz-compressed text, documents separated by the end mark)."""
    stories = [d for name in STORIES for d in _documents(folder / name)]
    classics = _documents(folder / "gutenberg_children.txt.xz")
    random.Random(0).shuffle(classics)
    lines = lzma.open(folder / "facts_sentences.txt.xz", "rt").read().splitlines()
    return Corpus(
        stories=[d for d in stories if not is_held_out(d)],
        held_out=[d for d in stories if is_held_out(d)],
        books=_documents(folder / "storybooks_ccby.txt.xz"),
        classics=classics[:1500],
        facts=[line.strip() for line in lines if line.strip() and line.strip() != END],
    )


def _documents(path: Path) -> list[str]:
    return [d.strip() for d in lzma.open(path, "rt").read().split(END) if d.strip()]


class Mixture:
    """Packed sequences: every story once a cycle, facts often, some classics.

    Args:
        corpus: the documents.
        tokenizer: a ``tokenizers.Tokenizer`` whose id 0 ends a document.
        length: tokens of a sequence; each yields length + 1 ids, inputs and shifted targets.
        seed: fixes the order.
    """

    def __init__(self, corpus: Corpus, tokenizer: Any, length: int, seed: int = 1) -> None:
        self.length, self.random = length, random.Random(seed)
        encode = lambda documents: [[*e.ids, 0] for e in tokenizer.encode_batch(documents)]  # noqa: E731
        self.stories, self.books = encode(corpus.stories), encode(corpus.books)
        self.classics, self.facts = encode(corpus.classics), encode(corpus.facts)
        self.questions = [
            i for i, line in enumerate(corpus.facts) if "Question" in line and "capital of" in line
        ]

    def batches(self, size: int) -> Iterator[list[list[int]]]:
        """Yield batches of ``size`` sequences for ever."""
        pool: list[list[int]] = []
        sequences = self._sequences()
        while True:
            while len(pool) < _SHUFFLE_POOL:
                pool.append(next(sequences))
            self.random.shuffle(pool)
            yield [pool.pop() for _ in range(size)]

    def _sequences(self) -> Iterator[list[int]]:
        buffer: list[int] = []
        while True:
            for ids in self._cycle():
                buffer += ids
                while len(buffer) > self.length:
                    yield buffer[: self.length + 1]
                    buffer = buffer[self.length :]

    def _cycle(self) -> Iterator[list[int]]:
        """Yield one cycle of documents; facts come in bunches of a dozen lines."""
        lines = list(range(len(self.facts))) * 5 + self.questions * 20
        self.random.shuffle(lines)
        bunches = [
            [i for line in lines[k : k + 12] for i in self.facts[line]]
            for k in range(0, len(lines), 12)
        ]
        sample = self.random.sample(self.classics, min(120, len(self.classics)))
        documents = [*self.stories, *self.books, *([*ids[:512], 0] for ids in sample), *bunches]
        self.random.shuffle(documents)
        yield from documents
