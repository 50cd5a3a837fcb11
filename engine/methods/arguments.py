"""The arguments of a method, read from its signature and from the table in its README."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from engine.errors import ParameterError

KINDS = ("bool", "int", "float", "str", "json")
_ROW = re.compile(
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
    """One argument that a method has of its own."""

    name: str
    kind: str
    """One of KINDS; json where neither the annotation nor the default tells."""
    default: Any = None
    """Plain values; None also where the default cannot be read without running the code."""
    required: bool = False
    told: str = ""
    """What the README's table says of it."""

    def check(self, value: Any) -> Any:
        """Return a value as the method is given it.

        Raises:
            ParameterError: it is of another kind.
        """
        if value is None or self.kind == "json":
            return self._plain(value)
        wanted = {"bool": bool, "int": int, "float": (int, float), "str": str}[self.kind]
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.kind != "bool"):
            raise ParameterError(self.name, value, f"it must be {_WORDS[self.kind]}")
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            raise ParameterError(self.name, value, f"it must be {_WORDS[self.kind]}")
        return float(value) if self.kind == "float" else value

    def _plain(self, value: Any) -> Any:
        try:
            return json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise ParameterError(self.name, value, "it must be a value that JSON has") from None


_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a finite number",
    "str": "text",
}


def arguments_of(function: ast.FunctionDef, readme: str = "") -> tuple[Argument, ...]:
    """Return a method's own arguments: what its signature names and generate() does not have.

    Args:
        function: its ``generate``; the first argument is the model.
        readme: Markdown with a table whose first column has the names.
    """
    told = {row["name"]: row["told"] for row in _ROW.finditer(readme)}
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(function.args.defaults))
    pairs = [
        *zip(positional, [*defaults, *function.args.defaults], strict=True),
        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
    ]
    named = tuple(
        _argument(node, default, told.get(node.arg, ""))
        for node, default in pairs[1 if positional else 0 :]
        if node.arg not in base_names()
    )
    known = {node.arg for node, _ in pairs} | base_names()
    if function.args.kwarg is None:
        return named
    return named + tuple(
        _told(name, row) for name, row in told.items() if name not in known and _kind_of(row)
    )


def checked_arguments(
    arguments: tuple[Argument, ...], given: dict[str, Any], also: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return what a method is called with.

    Args:
        arguments: its own.
        given: name -> value.
        also: names that it takes besides; their values are any that JSON has.

    Raises:
        ParameterError: one it does not have, one of another kind, or one that is missing.
    """
    own = {name: Argument(name, "json") for name in also}
    told = {argument.name: argument for argument in arguments}
    own |= told
    for name, value in given.items():
        if name not in own:
            has = (
                f"its arguments are {', '.join(told)}" if told else "it has no arguments of its own"
            )
            raise ParameterError(name, value, f"the method does not have it: {has}")
    for argument in arguments:
        if argument.required and argument.name not in given:
            raise ParameterError(
                argument.name, None, "the method has no default for it; give a value"
            )
    return {name: own[name].check(value) for name, value in given.items()}


@cache
def base_names() -> frozenset[str]:
    """Return the names that generate() itself, its config and the models have."""
    from transformers import GenerationConfig
    from transformers.generation import utils

    mixin: Any = utils.GenerationMixin
    signature = inspect.signature(mixin.generate).parameters
    return frozenset({*signature, *GenerationConfig().__dict__, *_MODEL_INPUTS})


def _argument(node: ast.arg, default: ast.expr | None, told: str) -> Argument:
    value, readable = _value(default)
    kind = _kind(node.annotation, value)
    return Argument(
        node.arg, kind, value if readable else None, default is None, _meaning(told, kind, value)
    )


def _told(name: str, row: str) -> Argument:
    """Return an argument that only the README names: its kind, and its default where a cell is one."""
    cells = [cell.strip(" `") for cell in row.split("|")]
    try:
        default = ast.literal_eval(cells[1])
    except (ValueError, SyntaxError, IndexError, RecursionError, MemoryError):
        default = None
    argument = Argument(name, _kind_of(row), told=_meaning(row, _kind_of(row), default))
    try:
        return replace(argument, default=argument.check(default))
    except ParameterError:
        return argument


def _kind_of(row: str) -> str:
    """Return the kind that the first cell after an argument's name says, empty where it says none."""
    first = row.partition("|")[0].strip(" `")
    return first if first in KINDS else ""


def _value(default: ast.expr | None) -> tuple[Any, bool]:
    if default is None:
        return None, True
    try:
        # Written out, as half of a character (a lone surrogate) can be shown nowhere.
        text = json.dumps(ast.literal_eval(default), allow_nan=False, ensure_ascii=False)
        return json.loads(text.encode()), True
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None, False


def _kind(annotation: ast.expr | None, value: Any) -> str:
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


def _meaning(row: str, kind: str, value: Any) -> str:
    """Return the cells of a table's row, without those that only repeat the kind or the default."""
    cells = [cell.strip() for cell in row.split("|") if cell.strip()]
    known = {kind, str(value), repr(value), json.dumps(value)}
    return ", ".join([cell for cell in cells if cell.strip("`") not in known] or cells)
