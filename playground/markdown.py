"""Markdown as small trees that the page builds elements of: no HTML is made, so none can be smuggled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from typing import Any
from xml.etree import ElementTree

from engine.lessons.told import Teller, marked

Tree = list[Any]
"""Texts, and ``[tag, attributes, children]``."""
_TAGS = {
    "paragraph": "p",
    "em": "em",
    "strong": "strong",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "s": "s",
}
_LINK = re.compile(r"(?:https://|\?)[^\s\x00-\x1f]*")
_MATH_TAGS = {
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msup", "msub", "msubsup"),
    *("msqrt", "mroot", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle"),
    *("mpadded", "mphantom", "menclose"),
}
_MATH_ATTRIBUTES = {
    *("display", "mathvariant", "stretchy", "fence", "linethickness", "columnalign", "width"),
}
_MARKS = re.compile("\ue000(\\d+)\ue001")


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False, "typographer": False})
    parser.disable(["image", "html_inline", "html_block", "reference", "heading", "lheading"])
    return parser.enable("table").use(dollarmath_plugin, double_inline=True)


def tree(text: str, teller: Teller) -> Tree:
    """Return a text of a lesson with its values in their places.

    Args:
        text: Markdown with ``{…}`` for values and ``$…$`` for formulas.
        teller: of the card.

    Raises:
        LessonError: a value is not there.
    """
    from markdown_it.tree import SyntaxTreeNode

    with_marks, expressions = marked(text)
    values = [teller.text(expression) for expression in expressions]
    return _Builder(values).of(SyntaxTreeNode(_parser().parse(with_marks)).children)


def line(text: str, teller: Teller) -> Tree:
    """Return a text of one line as ``tree`` does, without the paragraph around it."""
    found = tree(text, teller)
    alone = len(found) == 1 and isinstance(found[0], list) and found[0][0] == "p"
    return found[0][2] if alone else found


class _Builder:
    def __init__(self, values: list[str]) -> None:
        self.values = values

    def of(self, nodes: Any) -> Tree:
        """Return the trees of nodes in a row."""
        return [part for node in nodes for part in self._node(node)]

    def _node(self, node: Any) -> Iterator[Any]:
        kind = node.type
        if kind in ("inline", "root"):
            yield from self.of(node.children)
        elif kind == "text":
            yield from self._texts(node.content)
        elif kind in ("softbreak", "hardbreak"):
            yield " " if kind == "softbreak" else ["br", {}, []]
        elif kind == "code_inline":
            yield ["code", {}, [*self._texts(node.content)]]
        elif kind in ("fence", "code_block"):
            yield ["pre", {}, [["code", {}, [*self._texts(node.content)]]]]
        elif kind.startswith("math"):
            yield formula(_MARKS.sub(self._in_formula, node.content), block="block" in kind)
        elif kind == "link":
            yield from self._link(node)
        elif kind in _TAGS:
            yield [_TAGS[kind], {}, self.of(node.children)]
        elif kind != "hr":
            yield from self.of(node.children)

    def _link(self, node: Any) -> Iterator[Any]:
        address, inside = str(node.attrs.get("href", "")), self.of(node.children)
        if not _LINK.fullmatch(address):
            yield from inside
            return
        yield ["a", {"href": address}, inside]

    def _texts(self, text: str) -> Iterator[Any]:
        for index, part in enumerate(_MARKS.split(text)):
            if index % 2:
                yield ["span", {"class": "ls-value"}, [self.values[int(part)]]]
            elif part:
                yield part

    def _in_formula(self, match: re.Match[str]) -> str:
        # What stands for something in LaTeX is no part of a value.
        return "\\text{" + re.sub(r"[\\{}$#&_^~]", "", self.values[int(match[1])]) + "}"


def formula(latex: str, *, block: bool = False) -> Any:
    """Return a formula as MathML, or as it was written where that is not LaTeX."""
    try:
        return _math()(latex, block)
    except Exception:  # a library's many ways to say that something is no LaTeX
        return ["code", {}, [latex]]


@cache
def _math() -> Callable[[str, bool], Any]:
    from latex2mathml.converter import convert_to_element

    def made(latex: str, block: bool) -> Any:
        display = "block" if block else "inline"
        return _math_tree(convert_to_element(latex, display=display))

    return made


def _math_tree(element: ElementTree.Element) -> Any:
    tag = element.tag.rpartition("}")[2]
    inside = [part for part in (unescape(element.text or ""), *_children(element)) if part]
    if tag not in _MATH_TAGS:
        return ["mrow", {}, inside]
    attributes = {n: v for n, v in element.attrib.items() if n in _MATH_ATTRIBUTES}
    return [tag, attributes, inside]


def _children(element: ElementTree.Element) -> Iterator[Any]:
    for child in element:
        yield _math_tree(child)
        if child.tail:
            yield unescape(child.tail)


def words(parts: Tree) -> str:
    """Return a tree's words alone."""
    return "".join(part if isinstance(part, str) else words(part[2]) for part in parts)
