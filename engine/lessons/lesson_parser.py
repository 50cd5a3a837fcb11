"""Parse a lesson file: Markdown with a YAML head and a YAML block at the start of every card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from engine.errors import format_value
from engine.lessons import fields
from engine.lessons.lesson import Card, Lesson, LessonError, LessonRun
from engine.messages import Message

MAX_CHARS = 100_000
MAX_CARDS = 30
MAX_RUNS = 12
SECTIONS = ("Reveal", "Why", "Turn it")
"""Headings of a card's sections after the situation."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LANGUAGE = re.compile(r"[a-z]{2}")
_HEAD_FIELDS = {"title", "for", "summary", "minutes", "language", "runs"}
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_MAX_SECTION_CHARS = {"": 600, "Reveal": 700, "Why": 900, "Turn it": 400}
"""Most characters of each section, so that a card is read in a minute and fits on a screen."""


def parse_lesson(text: str, name: str) -> Lesson:
    """Return the lesson in a file.

    Args:
        text: content of the file.
        name: name of the lesson in URLs.

    Raises:
        LessonError: the file is invalid; the sentence names card, field and what is allowed.
    """
    if len(text) > MAX_CHARS:
        raise LessonError(
            "A lesson has {most} characters at most, this one {length}.",
            most=f"{MAX_CHARS:,}",
            length=f"{len(text):,}",
        )
    # Some editors end lines with \r\n and begin a file with a byte order mark.
    head, body, line = _split_head(text.replace("\r\n", "\n").lstrip("\ufeff"))
    given = fields.FieldReader(parse_yaml(head, "The head"), "The head", _HEAD_FIELDS)
    runs = {run.name: run for run in _parse_runs(given.value("runs", {}))}
    found = tuple(_parse_card(i, part, runs) for i, part in enumerate(_split_cards(body, line), 1))
    if not found:
        raise LessonError("A lesson needs a card: a heading “# …”, then a block ```card.")
    if len(found) > MAX_CARDS:
        raise LessonError(
            "A lesson has {most} cards at most, this one {found}.",
            most=MAX_CARDS,
            found=len(found),
        )
    language = given.text("language", "en", most=2)
    if not _LANGUAGE.fullmatch(language):
        raise LessonError(
            "The head: language = {language} is not allowed: it is two letters, as in en.",
            language=format_value(language),
        )
    return Lesson(
        name=name,
        language=language,
        title=given.text("title", most=80),
        audience=given.text("for", most=200),
        summary=given.text("summary", "", most=300),
        minutes=given.integer("minutes", 1, 120),
        runs=runs,
        cards=found,
    )


def _split_head(text: str) -> tuple[str, str, int]:
    """Return the head, the rest of the file and the line number at which the rest starts."""
    lines = text.split("\n")
    if lines[0].strip() != "---":
        raise LessonError("A lesson begins with a head between two lines of ---.")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        raise LessonError("The head of the lesson has no end: a line of --- is missing.")
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]), end + 2


_MAX_YAML_NODES = 2_000
"""The largest head of the built-in lessons has a tenth of them."""
_MAX_YAML_DEPTH = 40
"""As in a recorded run."""


class _StrictLoader(yaml.SafeLoader):
    """A YAML loader with a bounded cost, without aliases, which can expand without limit."""

    _nodes = _depth = 0

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._names: dict[int, str] = {}
        """id of a value's node -> its name."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return a node; raise YAMLError for an alias, and for too many nodes.

        Nodes are composed while the text is read, so no more of it is read than the limit.
        """
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a value refers to another one (*), which is not allowed")
        self._nodes += 1
        if self._nodes > _MAX_YAML_NODES:
            raise yaml.YAMLError(
                Message("it has more than {n} names and values", n=f"{_MAX_YAML_NODES:,}")
            )
        if self._depth == _MAX_YAML_DEPTH:
            raise yaml.YAMLError(Message("it nests deeper than {n} levels", n=_MAX_YAML_DEPTH))
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; raise YAMLError for a duplicate name."""
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.YAMLError(Message("{name} is given twice", name=name[:40]))
            seen.add(name)
            self._names[id(value)] = name
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return a node's value; raise YAMLError, with its name, for a text that its type does not have."""
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # PyYAML's conversions raise anything: KeyError for “!!bool maybe”, IndexError for “!!int ''”.
            problem = Message(
                "{name} has the value {value}, which is no {kind}",
                name=self._names.get(id(node), "it"),
                value=format_value(node.value),
                kind=node.tag.rpartition(":")[2],
            )
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


def parse_yaml(text: str, where: str) -> Mapping[str, Any]:
    """Return the mapping in a YAML text without aliases and duplicate names.

    Args:
        text: the YAML; an empty text gives an empty mapping.
        where: position in the file; starts every error message.

    Raises:
        LessonError: the YAML is invalid or no mapping; the sentence names the line if known.
    """
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(getattr(error, "problem", None) or error).split())[:120]
        mark = getattr(error, "problem_mark", None)
        if mark:
            raise LessonError(
                "{where} is no YAML, in its line {line}: {said}.",
                where=where,
                line=mark.line + 1,
                said=said,
            ) from None
        raise LessonError("{where} is no YAML: {said}.", where=where, said=said) from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise LessonError("{where} has to be names with values, as in “title: …”.", where=where)
    return value


def _parse_runs(given: object) -> Iterator[LessonRun]:
    if not isinstance(given, Mapping) or not given:
        raise LessonError("The head: runs has to name one run at least, with what makes it.")
    if len(given) > MAX_RUNS:
        raise LessonError(
            "A lesson has {most} runs at most, this one {given}.",
            most=MAX_RUNS,
            given=len(given),
        )
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise LessonError(
                "The head: a run is named by small letters, digits and _, not {name}.",
                name=format_value(name),
            )
        yield fields.parse_run(name, value)


@dataclass
class _CardSource:
    """The source of a card: heading, YAML block and lines of each section."""

    title: str
    line: int
    block: str | None = None
    texts: dict[str, list[str]] = field(default_factory=lambda: {"": []})


def _split_cards(body: str, first: int) -> list[_CardSource]:
    """Return the cards of a file; each starts with a first-level heading."""
    cards = _CardSplitter()
    for number, line in enumerate(body.split("\n"), first):
        cards.add_line(line, number)
    if cards.fence:
        raise LessonError("A block {fence} has no end.", fence=cards.fence)
    return cards.parts


class _CardSplitter:
    """Assigns the lines of a file to the sections of its cards."""

    def __init__(self) -> None:
        self.parts: list[_CardSource] = []
        self.section, self.fence, self.in_block = "", "", False

    def add_line(self, line: str, number: int) -> None:
        """Assign the next line."""
        if self.fence:
            self._add_fenced_line(line)
        elif opened := _FENCE.match(line):
            self.fence = opened[1]
            self._begin_fence(line, number)
        elif line.startswith("# "):
            self.parts.append(_CardSource(line[2:].strip(), number))
            self.section = ""
        elif line.startswith("## ") and self.parts:
            self.section = _begin_section(self.parts[-1], line, number)
        else:
            self._add_text_line(line, number)

    def _begin_fence(self, line: str, number: int) -> None:
        self.in_block = line.strip() == f"{self.fence}card"
        if not self.in_block:
            return self._add_text_line(line, number)
        if not self.parts or self.parts[-1].block is not None:
            raise LessonError(
                "Line {number}: a card has one block ```card, after its heading.", number=number
            )
        self.parts[-1].block = ""
        return None

    def _add_fenced_line(self, line: str) -> None:
        ends = line.strip() == self.fence
        self.fence = "" if ends else self.fence
        if not self.in_block:
            self._add_text_line(line, 0)
        elif not ends:
            self.parts[-1].block = f"{self.parts[-1].block}{line}\n"

    def _add_text_line(self, line: str, number: int) -> None:
        if self.parts:
            self.parts[-1].texts[self.section].append(line)
        elif line.strip():
            raise LessonError(
                "Line {number} comes before the first card, a heading “# …”.", number=number
            )


def _begin_section(part: _CardSource, line: str, number: int) -> str:
    name = line[3:].strip()
    if name not in SECTIONS or name in part.texts:
        raise LessonError(
            "Line {number}: a card has the parts {sections}, each once.",
            number=number,
            sections=", ## ".join(SECTIONS),
        )
    part.texts[name] = []
    return name


def _parse_card(number: int, part: _CardSource, runs: Mapping[str, LessonRun]) -> Card:
    where = Message("Card {number}", number=number)
    if not 0 < len(part.title) <= 80:
        raise LessonError("{where}: its heading has 1 to 80 characters.", where=where)
    if part.block is None:
        raise LessonError(
            "{where} (line {line}) has no block ```card.", where=where, line=part.line
        )
    texts = {name: "\n".join(lines).strip() for name, lines in part.texts.items()}
    for name, text in texts.items():
        if len(text) > _MAX_SECTION_CHARS[name]:
            raise LessonError(
                "{where}: {told} has {most} characters at most, this one {length}.",
                where=where,
                told=f"## {name}" if name else "its situation",
                most=_MAX_SECTION_CHARS[name],
                length=len(text),
            )
    given = fields.FieldReader(parse_yaml(part.block, where), where, fields.CARD_FIELDS)
    return fields.parse_card(number, part.title, given, texts, runs)
