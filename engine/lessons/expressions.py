"""Safe expressions over the values of recorded runs: comparisons, arithmetic and a few functions.

Lessons may come from anyone, so this module uses only Python's grammar. Everything it does not list
is refused, and no expression can run long or build large values.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from engine.lessons.lesson import LessonError
from engine.messages import Message
from engine.python_source import parse_expression

MAX_CHARS = 300
# No power, modulo or repetition of texts: these could build huge values.
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUALITY: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
Functions = Mapping[str, Callable[..., Any]]


def evaluate_expression(expression: str, names: Mapping[str, Any], functions: Functions) -> Any:
    """Return the value of an expression.

    Args:
        expression: numbers, texts, names, ``a.b``, ``a[0]``, calls of ``functions``, arithmetic of
            numbers, comparisons, ``in``, ``not``, ``and``, ``or``.
        names: name -> value; records are mappings.
        functions: name -> function; functions take positional arguments only.

    Raises:
        LessonError: the expression is invalid; the sentence names it and the reason.
    """
    if len(expression) > MAX_CHARS:
        raise LessonError("An expression may have {most} characters at most.", most=MAX_CHARS)
    try:
        tree = parse_expression(expression.strip())
        return _Evaluator(names, functions).evaluate(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LessonError(
            "{expression} is no expression.", expression=_quote_expression(expression)
        ) from None
    except ZeroDivisionError:
        raise LessonError(
            "{expression} divides by zero.", expression=_quote_expression(expression)
        ) from None
    except OverflowError:
        raise LessonError(
            "{expression} has a number that is too large.",
            expression=_quote_expression(expression),
        ) from None
    except _NotAllowedError as refused:
        raise LessonError(
            "{expression}: {refused}.",
            expression=_quote_expression(expression),
            refused=str(refused),
        ) from None


def to_finite_number(value: object) -> float:
    """Return a value as a float.

    Raises:
        LessonError: the value is no finite number.
    """
    # abs() and not isfinite(), which raises for an int that no float can be.
    if not _is_number(value) or not abs(value) <= sys.float_info.max:
        raise LessonError("{value} is no finite number.", value=_quote_expression(str(value)))
    return float(value)


def _quote_expression(text: str) -> str:
    return "“" + text.strip()[:80] + "”"


class _NotAllowedError(Exception):
    """A forbidden part of an expression; the message is a part of a sentence."""


class _Evaluator:
    def __init__(self, names: Mapping[str, Any], functions: Functions) -> None:
        self.names, self.functions = names, functions

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of a node of the expression."""
        # Methods are named after the classes of ast: _BinOp is handled by _binop.
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise _NotAllowedError(Message("{name} has no meaning here", name=type(node).__name__))
        return method(node)

    def _constant(self, node: ast.Constant) -> Any:
        if node.value is not None and not isinstance(node.value, (int, float, str)):
            raise _NotAllowedError("only numbers and texts can be written down")
        return node.value

    def _name(self, node: ast.Name) -> Any:
        return _get_entry(self.names, node.id)

    def _attribute(self, node: ast.Attribute) -> Any:
        return _get_entry(self.evaluate(node.value), node.attr)

    def _subscript(self, node: ast.Subscript) -> Any:
        value, index = self.evaluate(node.value), self.evaluate(node.slice)
        if isinstance(value, Mapping):
            return _get_entry(value, index)
        if not isinstance(value, Sequence) or isinstance(value, str) or type(index) is not int:
            raise _NotAllowedError("[…] takes a place in a list, from 0")
        if not -len(value) <= index < len(value):
            raise _NotAllowedError(
                Message(
                    "place {index} is not there, the list has {length}",
                    index=index,
                    length=len(value),
                )
            )
        return value[index]

    def _call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id not in self.functions:
            raise _NotAllowedError(
                Message(
                    "the functions are {functions}", functions=", ".join(sorted(self.functions))
                )
            )
        if node.keywords:
            raise _NotAllowedError("functions take values by their place")
        given = [self.evaluate(argument) for argument in node.args]
        try:
            return self.functions[node.func.id](*given)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            raise _NotAllowedError(
                Message("{name} cannot be determined from these values", name=node.func.id)
            ) from None

    def _binop(self, node: ast.BinOp) -> float:
        act = _ARITHMETIC.get(type(node.op))
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        if act is None or not _is_number(left) or not _is_number(right):
            raise _NotAllowedError("+, -, * and / are for numbers")
        return act(left, right)

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return not _require_bool(value)
        if not isinstance(node.op, ast.USub) or not _is_number(value):
            raise _NotAllowedError("- is for numbers")
        return -value

    def _boolop(self, node: ast.BoolOp) -> bool:
        # Every part is evaluated, so that a mistake in one is found whatever the others are.
        values = [_require_bool(self.evaluate(value)) for value in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)

    def _compare(self, node: ast.Compare) -> bool:
        values = [self.evaluate(part) for part in (node.left, *node.comparators)]
        return all(
            _apply_comparison(act, left, right)
            for act, left, right in zip(node.ops, values, values[1:], strict=False)
        )


def _apply_comparison(act: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(act, (ast.In, ast.NotIn)):
        if not isinstance(right, (str, list, tuple)) or isinstance(right, str) > isinstance(
            left, str
        ):
            raise _NotAllowedError("in is for texts and lists")
        return (left in right) == isinstance(act, ast.In)
    if type(act) in _EQUALITY:
        # A number formatted as text never equals a number.
        if isinstance(left, str) != isinstance(right, str) and None not in (left, right):
            raise _NotAllowedError("a text is compared with a number")
        return _EQUALITY[type(act)](left, right)
    compare = _COMPARISONS.get(type(act))
    if compare is None or not _is_number(left) or not _is_number(right):
        raise _NotAllowedError("<, <=, > and >= are for numbers")
    return compare(left, right)


def _get_entry(record: Any, name: object) -> Any:
    if not isinstance(record, Mapping):
        raise _NotAllowedError(Message("there is no {name} in it", name=repr(str(name)[:40])))
    # Names are texts; a list cannot even be looked up.
    if not isinstance(name, str) or name not in record:
        there = ", ".join(sorted(str(key) for key in record)[:30])
        raise _NotAllowedError(
            Message(
                "there is no {name}, but {there}",
                name=repr(str(name)[:40]),
                there=there or "nothing",
            )
        )
    return record[name]


def _require_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise _NotAllowedError("and, or and not are for what is true or false")
    return value


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)  # bool is an int
