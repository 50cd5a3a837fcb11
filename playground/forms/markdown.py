"""Convert a lesson's Markdown to element trees. No HTML is produced, so none can be injected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from typing import Any
from xml.etree import ElementTree

from engine.lessons.value_text import Teller, marked

Tree = list[Any]
"""A list of texts and of elements ``[tag, attributes, children]``."""
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
# The placeholders of ``marked``: private-use characters around the index of a value.
_MARKS = re.compile("\ue000(\\d+)\ue001")


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False, "typographer": False})
    # Lessons may come from anybody: images and raw HTML stay off.
    parser.disable(["image", "html_inline", "html_block", "reference", "heading", "lheading"])
    return parser.enable("table").use(dollarmath_plugin, double_inline=True)


def tree(text: str, teller: Teller) -> Tree:
    """Return the element tree of a lesson's text, with the values filled in.

    Args:
        text: Markdown with ``{…}`` for values and ``$…$`` for formulas.
        teller: Formats the values of the card.

    Raises:
        LessonError: A value does not exist.
    """
    from markdown_it.tree import SyntaxTreeNode

    with_marks, expressions = marked(text)
    values = [teller.text(expression) for expression in expressions]
    return _Builder(values).of(SyntaxTreeNode(_parser().parse(with_marks)).children)


def line(text: str, teller: Teller) -> Tree:
    """Return the tree of a single line: as ``tree``, without the enclosing paragraph."""
    found = tree(text, teller)
    alone = len(found) == 1 and isinstance(found[0], list) and found[0][0] == "p"
    return found[0][2] if alone else found


class _Builder:
    def __init__(self, values: list[str]) -> None:
        self.values = values

    def of(self, nodes: Any) -> Tree:
        """Return the trees of sibling nodes."""
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
        # Characters that LaTeX interprets would break the formula.
        return "\\text{" + re.sub(r"[\\{}$#&_^~]", "", self.values[int(match[1])]) + "}"


def formula(latex: str, *, block: bool = False) -> Any:
    """Return a formula as a MathML tree, or its source as ``code`` if it is not valid LaTeX."""
    try:
        return _math()(latex, block)
    except Exception:  # latex2mathml raises many types for invalid LaTeX
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
    # An allow-list: MathML elements with scripts or links never reach the page.
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
    """Return the plain text of a tree."""
    return "".join(part if isinstance(part, str) else words(part[2]) for part in parts)
