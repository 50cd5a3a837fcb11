"""The training text: reading, the held-out split, and an endless mixture of packed documents."""

from __future__ import annotations

import hashlib
import json
import lzma
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

END = "<|endoftext|>"
STORIES = ("tinystories_cased.txt.xz", "tinystories_truecased.txt.xz")
PREPARED = "documents.json"
WRITTEN = "written.txt"
WRITTEN_REPEATS, WRITTEN_REPEATS_FOR_DRAFTS = 2, 6
_SHUFFLE_POOL = 512


@dataclass(frozen=True)
class Corpus:
    """Documents by source; ``held_out`` is never trained on."""

    stories: list[str]
    held_out: list[str]
    books: list[str]
    classics: list[str]
    facts: list[str]
    written: list[str] = field(default_factory=list)
    """Stories by the target, for its drafts."""


def is_held_out(document: str) -> bool:
    """Decide by the document's own hash: about 5 %, the same on every machine."""
    return int(hashlib.sha256(document.encode()).hexdigest(), 16) % 20 == 0


def read(folder: Path) -> Corpus:
    """Read the corpus folder (xz-compressed text, documents separated by the end mark)."""
    stories = [d for name in STORIES for d in _documents(folder / name)]
    classics = _documents(folder / "gutenberg_children.txt.xz")
    random.Random(0).shuffle(classics)
    lines = _text(folder / "facts_sentences.txt.xz").splitlines()
    return Corpus(
        stories=[d for d in stories if not is_held_out(d)],
        held_out=[d for d in stories if is_held_out(d)],
        books=_documents(folder / "storybooks_ccby.txt.xz"),
        classics=classics[:1500],
        facts=[line.strip() for line in lines if line.strip() and line.strip() != END],
    )


def save(corpus: Corpus, work: Path) -> None:
    """Write the prepared documents for the other commands."""
    work.mkdir(parents=True, exist_ok=True)
    (work / PREPARED).write_text(json.dumps(asdict(corpus), ensure_ascii=False))


def load(work: Path, *, with_written: bool = False) -> Corpus:
    """Read the prepared documents.

    Args:
        work: where ``save`` put them.
        with_written: add what the target wrote, if it did.
    """
    corpus = Corpus(**json.loads((work / PREPARED).read_text()))
    written = work / WRITTEN
    if not (with_written and written.exists()):
        return corpus
    return replace(corpus, written=_split(written.read_text()))


def _documents(path: Path) -> list[str]:
    return _split(_text(path))


def _text(path: Path) -> str:
    with lzma.open(path, "rt") as file:
        return file.read()


def _split(text: str) -> list[str]:
    return [d.strip() for d in text.split(END) if d.strip()]


class Mixture:
    """Packed sequences: every story once a cycle, facts often, some classics.

    Args:
        corpus: the documents.
        tokenizer: a ``tokenizers.Tokenizer`` whose id 0 ends a document.
        length: tokens of a sequence; each yields length + 1 ids, inputs and shifted targets.
        seed: fixes the order.
        stories_only: for drafts, which need neither facts nor classics.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Any,
        length: int,
        seed: int = 1,
        *,
        stories_only: bool = False,
    ) -> None:
        self.length, self.random, self.stories_only = length, random.Random(seed), stories_only
        encode = lambda documents: [[*e.ids, 0] for e in tokenizer.encode_batch(documents)]  # noqa: E731
        self.stories, self.books = encode(corpus.stories), encode(corpus.books)
        self.written = encode(corpus.written)
        self.classics, self.facts = encode(corpus.classics), encode(corpus.facts)
        self.questions = [
            i for i, line in enumerate(corpus.facts) if "Question" in line and "capital of" in line
        ]

    def batches(self, size: int) -> Iterator[tuple[list[list[int]], list[list[bool]]]]:
        """Yield, for ever, ``size`` sequences and for each of their ids whether it is of a fact."""
        pool: list[tuple[list[int], list[bool]]] = []
        sequences = self._sequences()
        while True:
            while len(pool) < _SHUFFLE_POOL:
                pool.append(next(sequences))
            self.random.shuffle(pool)
            chosen = [pool.pop() for _ in range(size)]
            yield [ids for ids, _ in chosen], [marks for _, marks in chosen]

    def _sequences(self) -> Iterator[tuple[list[int], list[bool]]]:
        ids: list[int] = []
        marks: list[bool] = []
        while True:
            for document, is_fact in self._cycle():
                ids += document
                marks += [is_fact] * len(document)
                while len(ids) > self.length:
                    yield ids[: self.length + 1], marks[: self.length + 1]
                    ids, marks = ids[self.length :], marks[self.length :]

    def _cycle(self) -> Iterator[tuple[list[int], bool]]:
        """Yield one cycle of documents and whether each is facts, which come a dozen at a time."""
        repeats = WRITTEN_REPEATS_FOR_DRAFTS if self.stories_only else WRITTEN_REPEATS
        texts = self.stories + self.written * repeats
        if self.stories_only:
            self.random.shuffle(texts)
            yield from ((ids, False) for ids in texts)
            return
        lines = list(range(len(self.facts))) * 5 + self.questions * 20
        self.random.shuffle(lines)
        bunches = [
            [i for line in lines[k : k + 12] for i in self.facts[line]]
            for k in range(0, len(lines), 12)
        ]
        sample = self.random.sample(self.classics, min(120, len(self.classics)))
        texts += [*self.books, *([*ids[:512], 0] for ids in sample)]
        documents = [(ids, False) for ids in texts] + [(ids, True) for ids in bunches]
        self.random.shuffle(documents)
        yield from documents
