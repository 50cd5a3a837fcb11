"""The command ``docs``: generates documentation pages from the declarations and the source."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError

if TYPE_CHECKING:
    from engine.statistics.glossary import Term

ROOT = Path(__file__).resolve().parents[2]
"""Root folder of the repository."""
DOCS_FOLDER = "docs"
STRATEGY_MARK = " — *Strategy.* "
"""Mark of the glossary entries generated from the strategy registry."""
PAGE_TERM_MARK = " — *On the page.* "
"""Mark of the glossary entries generated from engine/statistics/glossary."""
_FIRST_VISIT = """# A first visit

<!-- Written by `python -m engine docs` from engine/strategies and the recorded runs; a change made here is lost. -->

What five minutes with the page should leave behind. Every figure is that of a recorded run of assets/gallery, which
the tab opens with or which is in the list under *Replay*; another model gives others.
"""
_ENTRY_HEAD = re.compile(r"^\*\*(.+?)\*\*", re.MULTILINE)


def add(commands: Any) -> None:
    """Add the command ``docs``."""
    command = commands.add_parser(
        "docs",
        help="write docs/strategies.md, docs/papers.md, docs/settings.md, docs/first_visit.md and the"
        " generated entries of the glossary",
    )
    command.add_argument(
        "--check", action="store_true", help="write nothing; status 1 when a page is out of date"
    )
    command.set_defaults(handler=_run)


def generate_pages(root: Path = ROOT) -> dict[str, str]:
    """Return path -> Markdown text of every generated page.

    Args:
        root: the repository; its docs folder holds the hand-written glossary entries.

    Raises:
        EngineError: docs/glossary.md is missing.
    """
    from engine.cli.paper_page import papers_page
    from engine.cli.settings_page import settings_page
    from engine.cli.strategy_page import strategies_page

    makers: dict[str, Callable[[Path], str]] = {
        "first_visit.md": first_visit_page,
        "glossary.md": glossary_page,
        "papers.md": papers_page,
        "settings.md": settings_page,
        "strategies.md": strategies_page,
    }
    if not (root / DOCS_FOLDER / "glossary.md").is_file():
        raise EngineError(f"{root} has no {DOCS_FOLDER}/glossary.md: run this in a whole checkout.")
    return {f"{DOCS_FOLDER}/{name}": make(root) for name, make in makers.items()}


def first_visit_page(root: Path) -> str:
    """Return docs/first_visit.md: three questions and answers about every strategy."""
    from engine.analysis.first_visit import strategy_answers
    from engine.declare.groups import FAMILIES
    from engine.strategies import STRATEGIES

    del root
    parts = [_FIRST_VISIT]
    for strategy in sorted(STRATEGIES.values(), key=lambda s: [*FAMILIES].index(s.family)):
        told = strategy_answers(strategy)
        parts.append(
            f"## {strategy.title}\n\n**How does it choose?** {told.chooses}\n\n**When does it help, and "
            f"when does it hurt?** {told.helps}\n\n**What does its main parameter do?** {told.turns}\n"
        )
    return "\n".join(parts)


def glossary_page(root: Path) -> str:
    """Return docs/glossary.md: hand-written entries, page terms and strategies, sorted by term."""
    from engine.statistics.glossary import TERMS
    from engine.strategies import STRATEGIES

    head, entries = split_glossary((root / DOCS_FOLDER / "glossary.md").read_text())
    shown = [_format_term(term) for term in TERMS.values()]
    names = {_entry_term(entry) for entry in shown}
    # A generated page term replaces a hand-written entry of the same name.
    written = [
        entry
        for entry in entries
        if STRATEGY_MARK not in entry
        and PAGE_TERM_MARK not in entry
        and _entry_term(entry) not in names
    ]
    made = [
        f"**{s.title}** · `{s.name}`{STRATEGY_MARK}{_first_sentence(s.summary)} "
        f"[More](strategies.md#{s.name})."
        for s in STRATEGIES.values()
    ]
    return "\n\n".join([head, *sorted([*written, *shown, *made], key=_entry_term)]) + "\n"


def _format_term(term: Term) -> str:
    codes = ", ".join(f"`{name}`" for name in dict.fromkeys((*term.codes, *term.params)))
    named = f"**{term.name}**" + (f" · {codes}" if codes else "")
    return f"{named}{PAGE_TERM_MARK}{term.says} {term.beware}".strip()


def split_glossary(text: str) -> tuple[str, list[str]]:
    """Split a glossary into its head and its entries, the paragraphs that begin with a bold term.

    Raises:
        EngineError: there is no entry.
    """
    start = _ENTRY_HEAD.search(text)
    if start is None:
        raise EngineError("The glossary has no entry: each is a paragraph that begins **term**.")
    entries = [entry.strip() for entry in text[start.start() :].split("\n\n")]
    return text[: start.start()].strip(), [entry for entry in entries if entry]


def _entry_term(entry: str) -> str:
    found = _ENTRY_HEAD.match(entry)
    if found is None:
        raise EngineError(f"This entry of the glossary begins with no bold term: {entry[:60]}")
    return found.group(1).casefold()


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def _run(arguments: argparse.Namespace) -> int:
    stale = [
        (path, text)
        for path, text in generate_pages(ROOT).items()
        if not (ROOT / path).is_file() or (ROOT / path).read_text() != text
    ]
    for path, text in stale:
        if not arguments.check:
            (ROOT / path).write_text(text)
        sys.stdout.write(f"{path} {'is out of date' if arguments.check else 'written'}\n")
    if not stale:
        sys.stdout.write("Every page is as the declarations are.\n")
    return 1 if stale and arguments.check else 0
