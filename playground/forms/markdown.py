"""Convert a lesson's Markdown to element trees. No HTML is produced, so none can be injected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html import unescape
from typing import Any
from xml.etree import ElementTree

from engine.lessons.value_text import ValueWriter, insert_placeholders

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
_SAFE_LINK = re.compile(r"(?:https://|\?)[^\s\x00-\x1f]*")
_MATH_TAGS = {
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msup", "msub", "msubsup"),
    *("msqrt", "mroot", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle"),
    *("mpadded", "mphantom", "menclose"),
}
_MATH_ATTRIBUTES = {
    *("display", "mathvariant", "stretchy", "fence", "linethickness", "columnalign", "width"),
}
# The placeholders of ``insert_placeholders``: private-use characters around the index of a value.
_VALUE_MARKS = re.compile("\ue000(\\d+)\ue001")


@cache
def _markdown_parser() -> Any:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False, "typographer": False})
    # Lessons may come from anybody: images and raw HTML stay off.
    parser.disable(["image", "html_inline", "html_block", "reference", "heading", "lheading"])
    return parser.enable("table").use(dollarmath_plugin, double_inline=True)


def parse_markdown(text: str, teller: ValueWriter) -> Tree:
    """Return the element tree of a lesson's text, with the values filled in.

    Args:
        text: Markdown with ``{…}`` for values and ``$…$`` for formulas.
        teller: Formats the values of the card.

    Raises:
        LessonError: A value does not exist.
    """
    from markdown_it.tree import SyntaxTreeNode

    with_marks, expressions = insert_placeholders(text)
    values = [teller.text(expression) for expression in expressions]
    return _TreeBuilder(values).build_nodes(
        SyntaxTreeNode(_markdown_parser().parse(with_marks)).children
    )


def parse_inline(text: str, teller: ValueWriter) -> Tree:
    """Return the tree of a single line: as ``parse_markdown``, without the enclosing paragraph."""
    found = parse_markdown(text, teller)
    alone = len(found) == 1 and isinstance(found[0], list) and found[0][0] == "p"
    return found[0][2] if alone else found


class _TreeBuilder:
    def __init__(self, values: list[str]) -> None:
        self.values = values

    def build_nodes(self, nodes: Any) -> Tree:
        """Return the trees of sibling nodes."""
        return [part for node in nodes for part in self._build_node(node)]

    def _build_node(self, node: Any) -> Iterator[Any]:
        kind = node.type
        if kind in ("inline", "root"):
            yield from self.build_nodes(node.children)
        elif kind == "text":
            yield from self._build_texts(node.content)
        elif kind in ("softbreak", "hardbreak"):
            yield " " if kind == "softbreak" else ["br", {}, []]
        elif kind == "code_inline":
            yield ["code", {}, [*self._build_texts(node.content)]]
        elif kind in ("fence", "code_block"):
            yield ["pre", {}, [["code", {}, [*self._build_texts(node.content)]]]]
        elif kind.startswith("math"):
            yield formula_to_mathml(
                _VALUE_MARKS.sub(self._to_latex_text, node.content), block="block" in kind
            )
        elif kind == "link":
            yield from self._build_link(node)
        elif kind in _TAGS:
            yield [_TAGS[kind], {}, self.build_nodes(node.children)]
        elif kind != "hr":
            yield from self.build_nodes(node.children)

    def _build_link(self, node: Any) -> Iterator[Any]:
        address, inside = str(node.attrs.get("href", "")), self.build_nodes(node.children)
        if not _SAFE_LINK.fullmatch(address):
            yield from inside
            return
        yield ["a", {"href": address}, inside]

    def _build_texts(self, text: str) -> Iterator[Any]:
        for index, part in enumerate(_VALUE_MARKS.split(text)):
            if index % 2:
                yield ["span", {"class": "ls-value"}, [self.values[int(part)]]]
            elif part:
                yield part

    def _to_latex_text(self, match: re.Match[str]) -> str:
        # Characters that LaTeX interprets would break the formula.
        return "\\text{" + re.sub(r"[\\{}$#&_^~]", "", self.values[int(match[1])]) + "}"


def formula_to_mathml(latex: str, *, block: bool = False) -> Any:
    """Return a formula as a MathML tree, or its source as ``code`` if it is not valid LaTeX."""
    try:
        return _mathml_converter()(latex, block)
    except Exception:  # latex2mathml raises many types for invalid LaTeX
        return ["code", {}, [latex]]


@cache
def _mathml_converter() -> Callable[[str, bool], Any]:
    from latex2mathml.converter import convert_to_element

    def made(latex: str, block: bool) -> Any:
        display = "block" if block else "inline"
        return _math_tree(convert_to_element(latex, display=display))

    return made


def _math_tree(element: ElementTree.Element) -> Any:
    tag = element.tag.rpartition("}")[2]
    inside = [part for part in (unescape(element.text or ""), *_math_children(element)) if part]
    # An allow-list: MathML elements with scripts or links never reach the page.
    if tag not in _MATH_TAGS:
        return ["mrow", {}, inside]
    attributes = {n: v for n, v in element.attrib.items() if n in _MATH_ATTRIBUTES}
    return [tag, attributes, inside]


def _math_children(element: ElementTree.Element) -> Iterator[Any]:
    for child in element:
        yield _math_tree(child)
        if child.tail:
            yield unescape(child.tail)


def tree_text(parts: Tree) -> str:
    """Return the plain text of a tree."""
    return "".join(part if isinstance(part, str) else tree_text(part[2]) for part in parts)
