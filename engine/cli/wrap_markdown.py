"""Wraps the paragraphs and lists of a Markdown page; its tables, code and headings stay as they are."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

WIDTH = 120
"""Characters of a line."""
_CODE = re.compile(r"^(```|~~~).*?^\1$\n?", re.MULTILINE | re.DOTALL)
_NO_PROSE = re.compile(r"\s*$|[|#<]|    ")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")


def wrap_markdown(text: str) -> str:
    """Return the page with every paragraph and list item wrapped that has too long a line."""
    parts, at = list[str](), 0
    for code in _CODE.finditer(text):
        parts += [_wrap_prose(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _wrap_prose(text[at:])])


def _wrap_prose(text: str) -> str:
    return "\n".join(line for block in _split_blocks(text) for line in _wrap_block(block))


def _split_blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of each paragraph and list item together, every other line alone."""
    block = list[str]()
    for line in text.split("\n"):
        other = _NO_PROSE.match(line) is not None
        if block and (other or _ITEM.match(line)):
            yield block
            block = []
        if other:
            yield [line]
        else:
            block.append(line)
    if block:
        yield block


def _wrap_block(block: list[str]) -> list[str]:
    if _NO_PROSE.match(block[0]) or max(map(len, block)) <= WIDTH:
        return block
    item = _ITEM.match(block[0])
    return textwrap.wrap(
        " ".join(line.strip() for line in block),
        WIDTH,
        subsequent_indent=" " * len(item[0]) if item else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
