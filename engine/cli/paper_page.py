"""Generates docs/papers.md: the paper behind each strategy, parameter and source file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.declare.papers import PAPERS
from engine.declare.params import params_of
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy

SOURCE_FOLDERS = ("assets", "benchmarks", "engine", "playground", "training", "visualizers")
SOURCE_SUFFIXES = (".py", ".js", ".mjs")
# YYMM.NNNN or YYMM.NNNNN, not within a longer number such as a version.
ARXIV_ID = re.compile(r"(?<![\d.])\d{2}(?:0[1-9]|1[0-2])\.\d{4,5}(?![\d.]*\d)")
_CITATION = re.compile(r"([A-Z][\w’-]+(?: et al\.| (?:&|and) [A-Z][\w’-]+)? \d{4})(?=,)")
_CITATION_WINDOW = 60
_LOOP_IMPORT = re.compile(r"^from (engine\.loops[\w.]*) import", re.MULTILINE)
_HEAD = """# Papers

<!-- Written by `python -m engine docs` from engine/strategies and the source; a change made here is lost. -->

## By strategy

| strategy | source | declared in | loops |
|---|---|---|---|
"""
_INDEX_HEAD = """
## By arXiv number

Every number that the code names, whom it says it is by, and where it is put to use.

| paper | by | strategies | parameters | named in |
|---|---|---|---|---|
"""


def papers_page(root: Path) -> str:
    """Return docs/papers.md as Markdown.

    Args:
        root: the repository whose source is read.
    """
    rows = [_strategy_row(strategy, root) for strategy in STRATEGIES.values()]
    files = {path: text for path, text in read_sources(root) if ARXIV_ID.search(text)}
    ids = sorted({paper for text in files.values() for paper in ARXIV_ID.findall(text)})
    index = [_paper_row(paper, files) for paper in ids]
    return _HEAD + "".join(rows) + _INDEX_HEAD + "".join(index)


def read_sources(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of every source file except tests."""
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                yield path.relative_to(root).as_posix(), path.read_text()


def _strategy_row(strategy: Strategy, root: Path) -> str:
    path = strategy.config.__module__.replace(".", "/") + ".py"
    loops = sorted(set(_LOOP_IMPORT.findall((root / path).read_text())))
    named = ", ".join(f"{module.replace('.', '/')}.py" for module in loops)
    link = f"[{strategy.title}](strategies.md#{strategy.name})"
    return f"| {link} | {strategy.paper} | {path} | {named} |\n"


def _paper_row(paper: str, files: dict[str, str]) -> str:
    named = {path: text for path, text in files.items() if paper in ARXIV_ID.findall(text)}
    by = sorted({name for text in named.values() for name in _find_citations(paper, text)})
    strategies = [f"`{s.name}`" for s in STRATEGIES.values() if paper in ARXIV_ID.findall(s.paper)]
    parameters = dict.fromkeys(
        f"`{name}`"
        for s in STRATEGIES.values()
        for name in params_of(s.config)
        if paper in PAPERS.get(name, ())
    )
    cells = [
        f"[{paper}](https://arxiv.org/abs/{paper})",
        "; ".join(by),
        ", ".join(strategies),
        ", ".join(parameters),
        ", ".join(named),
    ]
    return f"| {' | '.join(cells)} |\n"


def _find_citations(paper: str, text: str) -> Iterator[str]:
    """Yield the authors and year found up to 60 characters before each mention of an arXiv id."""
    for found in re.finditer(re.escape(paper), text):
        before = text[max(0, found.start() - _CITATION_WINDOW) : found.start()]
        before = " ".join(re.split(r"[;\n]", before)[-1].split())
        names = _CITATION.findall(before)
        if names:
            yield names[-1]
