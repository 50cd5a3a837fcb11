"""Parses a method's arguments from its signature and from the table in its README."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from engine.errors import ParameterError
from engine.messages import Message

KINDS = ("bool", "int", "float", "str", "json")
_TABLE_ROW = re.compile(
    r"^[ \t]*\|[ \t]*`?(?P<name>[A-Za-z_]\w*)`?[ \t]*\|(?P<told>.*)\|[ \t]*$", re.MULTILINE
)
_MODEL_INPUTS = frozenset(
    (
        "input_ids",
        "attention_mask",
        "position_ids",
        "past_key_values",
        "inputs_embeds",
        "cache_position",
        "decoder_input_ids",
        "decoder_attention_mask",
        "encoder_outputs",
        "token_type_ids",
        "use_cache",
        "on_step",
    )
)


@dataclass(frozen=True)
class Argument:
    """An argument that a method adds to those of generate()."""

    name: str
    kind: str
    """One of KINDS; json if neither annotation nor default determines it."""
    default: Any = None
    """A plain value; also None if the default cannot be read without running the code."""
    required: bool = False
    told: str = ""
    """Description from the README's table."""

    def check(self, value: Any) -> Any:
        """Return a value converted for the method.

        Raises:
            ParameterError: the value has the wrong type.
        """
        if value is None or self.kind == "json":
            return self._to_json_value(value)
        wanted = {"bool": bool, "int": int, "float": (int, float), "str": str}[self.kind]
        # In Python a bool is an int, too.
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.kind != "bool"):
            raise ParameterError(
                self.name, value, Message("it must be {range}", range=_KIND_TEXTS[self.kind])
            )
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            raise ParameterError(
                self.name, value, Message("it must be {range}", range=_KIND_TEXTS[self.kind])
            )
        return float(value) if self.kind == "float" else value

    def _to_json_value(self, value: object) -> Any:
        try:
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise ParameterError(self.name, value, "it must be a value that JSON has") from None


_KIND_TEXTS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a finite number",
    "str": "text",
}


def parse_arguments(function: ast.FunctionDef, readme: str = "") -> tuple[Argument, ...]:
    """Return a method's own arguments: those in its signature that generate() lacks.

    With ``**kwargs`` in the signature, arguments that only the README's table lists are added.

    Args:
        function: its ``generate``, which takes the model as ``model``.
        readme: Markdown with a table whose first column has the names.
    """
    told = {row["name"]: row["told"] for row in _TABLE_ROW.finditer(readme)}
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(function.args.defaults))
    pairs = [
        *zip(positional, [*defaults, *function.args.defaults], strict=True),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ]
    named = tuple(
        _parse_argument(node, default, told.get(node.arg, ""))
        for node, default in pairs
        if node.arg != "model" and node.arg not in standard_argument_names()
    )
    known = {node.arg for node, _ in pairs} | standard_argument_names()
    if function.args.kwarg is None:
        return named
    return named + tuple(
        _argument_from_row(name, row)
        for name, row in told.items()
        if name not in known and _kind_from_row(row)
    )


def check_arguments(
    arguments: tuple[Argument, ...], given: Mapping[str, object], also: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the validated keyword arguments of a method.

    Args:
        arguments: the method's own.
        given: name -> value.
        also: further names it accepts, with any JSON value.

    Raises:
        ParameterError: an unknown argument, one of the wrong type, or a missing one.
    """
    own = {name: Argument(name, "json") for name in also}
    told = {argument.name: argument for argument in arguments}
    own |= told
    for name, value in given.items():
        if name not in own:
            has = (
                Message("its arguments are {told}", told=", ".join(told))
                if told
                else "it has no own arguments"
            )
            raise ParameterError(
                name, value, Message("the method does not have it: {has}", has=has)
            )
    for argument in arguments:
        if argument.required and argument.name not in given:
            raise ParameterError(
                argument.name, None, "the method has no default for it; give a value"
            )
    return {name: own[name].check(value) for name, value in given.items()}


@cache
def standard_argument_names() -> frozenset[str]:
    """Return the argument names of generate(), its config and the models."""
    from transformers import GenerationConfig
    from transformers.generation import utils

    mixin: Any = utils.GenerationMixin
    signature = inspect.signature(mixin.generate).parameters
    return frozenset({*signature, *GenerationConfig().__dict__, *_MODEL_INPUTS})


def _parse_argument(node: ast.arg, default: ast.expr | None, told: str) -> Argument:
    value, readable = _read_default(default)
    kind = _infer_kind(node.annotation, value)
    return Argument(
        node.arg,
        kind,
        value if readable else None,
        default is None,
        _describe_row(told, kind, value),
    )


def _argument_from_row(name: str, row: str) -> Argument:
    """Return an argument that only the README lists, with its kind and its default if readable."""
    cells = [cell.strip(" `") for cell in row.split("|")]
    try:
        default = ast.literal_eval(cells[1])
    except (ValueError, SyntaxError, IndexError, RecursionError, MemoryError):
        default = None
    argument = Argument(
        name, _kind_from_row(row), told=_describe_row(row, _kind_from_row(row), default)
    )
    try:
        return replace(argument, default=argument.check(default))
    except ParameterError:
        return argument


def _kind_from_row(row: str) -> str:
    """Return the kind in the first cell after an argument's name, empty if it is none."""
    first = row.partition("|")[0].strip(" `")
    return first if first in KINDS else ""


def _read_default(default: ast.expr | None) -> tuple[Any, bool]:
    if default is None:
        return None, True
    try:
        # Encoded on purpose: a lone surrogate fails here, since it cannot be displayed anywhere.
        # The method's code is not run here, so only literals have a known value.
        text = json.dumps(ast.literal_eval(default), allow_nan=False, ensure_ascii=False)
        return json.loads(text.encode()), True
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None, False


def _infer_kind(annotation: ast.expr | None, value: object) -> str:
    if annotation is not None:
        try:
            words = re.findall(r"\w+", ast.unparse(annotation))
        except RecursionError:
            return "json"
        kinds = [w for w in words if w not in ("None", "Optional", "Union", "typing")]
        if len(kinds) == 1 and kinds[0] in KINDS:
            return kinds[0]
        return "json"
    kind = type(value).__name__
    return kind if kind in KINDS else "json"


def _describe_row(row: str, kind: str, value: object) -> str:
    """Return a table row's cells without those that repeat the kind or the default."""
    cells = [cell.strip() for cell in row.split("|") if cell.strip()]
    known = {kind, str(value), repr(value), json.dumps(value)}
    return ", ".join([cell for cell in cells if cell.strip("`") not in known] or cells)
