"""Find the values that a lesson's text quotes and format them in the lesson's language."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from engine.lessons.expressions import evaluate_expression, to_finite_number
from engine.lessons.lesson import LessonError
from engine.lessons.run_values import FUNCTIONS

_TEXT_FOLDER = Path(__file__).resolve().parents[2] / "assets" / "text"
_ENGLISH_FORMAT = {
    "decimal": ".",
    "thousands": ",",
    "yes": "yes",
    "no": "no",
    "true": "True",
    "false": "False",
}
_LARGE = 1000
PLACEHOLDER = "\ue000{}\ue001"
"""Placeholder of a value while the text is parsed as Markdown; private-use characters survive
it."""
_QUOTE = re.compile(r"\\[{}]|\$(?:\\.|[^$\\\n])+\$|\{([^{}\n]*)\}")
_FORMULA_QUOTE = re.compile(r"\{\{([^{}\n]*)\}\}")
_PRIVATE_USE = re.compile("[\ue000-\uf8ff]")


@cache
def _read_format(language: str) -> Mapping[str, str]:
    path = _TEXT_FOLDER / language / "format.json"
    own = json.loads(path.read_text("utf-8")) if language.isalpha() and path.exists() else {}
    return {**_ENGLISH_FORMAT, **own}


class LanguageFormat:
    """Number and truth formats of a language.

    Args:
        name: two-letter name of the language; one without a ``format.json`` has the English formats.
    """

    def __init__(self, name: str) -> None:
        given = _read_format(name)
        self.point, self.group = given["decimal"], given["thousands"]
        self.yes_no = (given["yes"], given["no"])
        self.truths = (given["true"], given["false"])

    def number(self, value: float, digits: int | None = None) -> str:
        """Return a number with `digits` decimals (at most 6), or as short as the page writes it."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number that is written must be finite")
        if isinstance(value, int) and digits is None:
            text = f"{value:,d}"
        elif digits is None:
            text = _format_short(value)
        else:
            text = f"{value:,.{min(max(digits, 0), 6)}f}"
        swap = {",": self.group, ".": self.point}
        return "".join(swap.get(sign, sign) for sign in text).replace("-", "−")

    def percent(self, share: float, digits: int | None = None) -> str:
        """Return a share in percent; small shares keep more decimals."""
        hundred = 100 * share
        if digits is None:
            digits = 0 if hundred >= 10 or hundred == 0 else 1 if hundred >= 1 else 2
            digits = max(digits, _needed_digits(hundred))
        return self.number(hundred, digits) + "\u202f%"  # a narrow no-break space

    def text(self, value: object) -> str:
        """Return a value as text.

        Raises:
            LessonError: the value is a record, a list or not finite.
        """
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return self.yes_no[not value]
        return self.number(value if type(value) is int else to_finite_number(value))


def _needed_digits(hundred: float) -> int:
    """Return the number of decimals at which a percentage is not rounded to 0 or 100."""
    if 0 < hundred < 0.1:
        return min(6, -math.floor(math.log10(hundred)))
    if 99 < hundred < 100:
        return min(6, -math.floor(math.log10(100 - hundred)))
    return 0


def _format_short(value: float) -> str:
    """Return a number with at most two decimals, or two digits of a small value."""
    if abs(value) >= _LARGE:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 1e-4:
        text = f"{value:.{3 if abs(value) >= 1 else 2}g}"
        return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text
    return f"{value:.1e}"


def insert_placeholders(text: str) -> tuple[str, list[str]]:
    r"""Return a text with a placeholder for each quoted value, and the expressions in that order.

    A value is quoted in braces, within a formula in double braces; ``\{`` is a literal brace.
    """
    found: list[str] = []

    def mark(expression: str) -> str:
        found.append(expression)
        return PLACEHOLDER.format(len(found) - 1)

    def replaced(match: re.Match[str]) -> str:
        if match[0].startswith("$"):
            return _FORMULA_QUOTE.sub(lambda inner: mark(inner[1]), match[0])
        return match[0][1:] if match[0].startswith("\\") else mark(match[1])

    # Private-use characters in the text itself could pass for placeholders.
    return _QUOTE.sub(replaced, _PRIVATE_USE.sub("", text)), found


def quoted_expressions(text: str) -> list[str]:
    """Return the expressions that a text quotes."""
    return insert_placeholders(text)[1]


class ValueWriter:
    """Evaluates and formats the values that a lesson quotes.

    Args:
        names: name -> value for expressions.
        language: language of the lesson.
    """

    def __init__(self, names: Mapping[str, Any], language: str) -> None:
        self.names, self.language = names, LanguageFormat(language)
        self.functions: dict[str, Callable[..., Any]] = {
            **FUNCTIONS,
            "percent": self.language.percent,
            "fixed": self.language.number,
        }

    def value(self, expression: str) -> Any:
        """Return the value of an expression.

        Raises:
            LessonError: the expression is invalid.
        """
        return evaluate_expression(expression, self.names, self.functions)

    def is_true(self, expression: str) -> bool:
        """Return whether an expression is true.

        Raises:
            LessonError: its value is neither true nor false.
        """
        value = self.value(expression)
        if not isinstance(value, bool):
            raise LessonError(
                "“{expression}” is neither true nor false.", expression=expression[:80]
            )
        return value

    def text(self, expression: str) -> str:
        """Return the value of an expression as text."""
        return self.language.text(self.value(expression))

    def fill_text(self, text: str) -> str:
        """Return a text with all quoted values filled in."""
        with_marks, expressions = insert_placeholders(text)
        for index, expression in enumerate(expressions):
            with_marks = with_marks.replace(PLACEHOLDER.format(index), self.text(expression))
        return with_marks
