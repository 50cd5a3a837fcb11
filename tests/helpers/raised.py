"""The sentences that errors are made with, read off the code: every value in them is a sign of its own."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
VALUE = "\0"
_DEEPEST = 6
_ERRORS = ("EngineError", "MeasurementStopped")
_MANY = 64


class _UnreadableError(Exception):
    """What is said is put together in a way that only a run can follow."""


@dataclass(frozen=True)
class Told:
    """One place at which something is said.

    Attributes:
        path: of the module, from the root of the project.
        line: in it.
        code: the expression.
        sentences: what it can be, with ⟨0⟩, ⟨1⟩ … for values; None where that cannot be read off.
    """

    path: str
    line: int
    code: str
    sentences: tuple[str, ...] | None


@dataclass
class _Module:
    path: str
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in _assigned(self.tree.body):
            self.constants[name] = value
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, []).append(node)


def _assigned(body: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for one, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(one, ast.Name):
                            yield one.id, value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


@cache
def _modules() -> dict[str, _Module]:
    found = {}
    for folder in ("engine", "playground"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            found[name] = _Module(name, ast.parse(path.read_text("utf-8")))
    return found


@cache
def errors() -> frozenset[str]:
    """Return the names of the classes whose sentences a person reads."""
    classes = [
        node
        for module in _modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    ]
    known = set(_ERRORS)
    while True:
        more = {c.name for c in classes if any(_last(base) in known for base in c.bases)} - known
        if not more:
            return frozenset(known)
        known |= more


def _last(node: ast.AST) -> str:
    """Return the last part of a dotted name, empty for anything else."""
    return getattr(node, "attr", "") or getattr(node, "id", "")


def all_told() -> Iterator[Told]:
    """Yield every place of engine and playground at which an error gets its words."""
    for module in _modules().values():
        for function, call in _calls(module.tree, None):
            for said in _words(call):
                reader = _Reader(module, function)
                yield Told(module.path, said.lineno, ast.unparse(said), reader.sentences(said))


def _calls(
    node: ast.AST, function: ast.FunctionDef | None
) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inside = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call) and _last(child.func) in errors():
            yield function, child
        yield from _calls(child, inside)


def _words(call: ast.Call) -> list[ast.expr]:
    """Return the arguments that are read: of a parameter what is allowed and the hint, else the sentence."""
    if _last(call.func) != "ParameterError":
        return call.args[:1]
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    found = [*call.args[2:4], *(named[name] for name in ("allowed", "hint") if name in named)]
    return [node for node in found if not (isinstance(node, ast.Constant) and node.value == "")]


@dataclass
class _Reader:
    """Reads what an expression can say."""

    module: _Module
    function: ast.FunctionDef | None
    depth: int = 0

    def __post_init__(self) -> None:
        if self.depth > _DEEPEST:
            raise _UnreadableError

    def sentences(self, node: ast.expr) -> tuple[str, ...] | None:
        try:
            return tuple(_numbered(text) for text in dict.fromkeys(self.read(node)) if text)
        except _UnreadableError:
            return None

    def read(self, node: ast.expr) -> list[str]:
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.Constant(value=None):
                return []
            case ast.JoinedStr(values=parts):
                return self._joined([self._part(part) for part in parts])
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([self.read(left), self.read(right)])
            case ast.IfExp(body=one, orelse=other):
                return self.read(one) + self.read(other)
            case ast.BoolOp(op=ast.Or(), values=values):
                return self._readable(values)
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute(attr=name) if name.isupper():
                return self._constant(name)
            case ast.Call(func=func):
                return self._returned(_last(func))
        raise _UnreadableError

    def _joined(self, parts: Sequence[list[str]]) -> list[str]:
        return ["".join(one) for one in itertools.islice(itertools.product(*parts), _MANY)]

    def _readable(self, values: Sequence[ast.expr]) -> list[str]:
        found = []
        for value in values:
            try:
                found += self.read(value)
            except _UnreadableError:
                continue
        if not found:
            raise _UnreadableError
        return found

    def _part(self, part: ast.expr) -> list[str]:
        """Read a part of an f-string: a value whose words stand beside it in the code, or any value."""
        if not isinstance(part, ast.FormattedValue):
            return self.read(part)
        plain = part.conversion == -1 and part.format_spec is None
        if plain and isinstance(part.value, ast.IfExp | ast.Name):
            try:
                return self._beside(part.value)
            except _UnreadableError:
                pass
        return [VALUE]

    def _beside(self, value: ast.expr) -> list[str]:
        if isinstance(value, ast.Name) and value.id not in dict(self._locals()):
            raise _UnreadableError
        return self._deeper().read(value)

    def _deeper(self) -> _Reader:
        return _Reader(self.module, self.function, self.depth + 1)

    def _locals(self) -> list[tuple[str, ast.expr]]:
        return [] if self.function is None else list(_assigned(list(ast.walk(self.function))))

    def _named(self, name: str) -> list[str]:
        own = [value for known, value in self._locals() if known == name]
        if own:
            return [text for value in own for text in self._deeper().read(value)]
        return self._constant(name)

    def _constant(self, name: str) -> list[str]:
        for module in (self.module, *_modules().values()):
            if name in module.constants and name.lstrip("_").isupper():
                return _Reader(module, None, self.depth + 1).read(module.constants[name])
        raise _UnreadableError

    def _returned(self, name: str) -> list[str]:
        """Read what a function of the project returns."""
        for module in (self.module, *_modules().values()):
            found = [
                text
                for function in module.functions.get(name, [])
                for node in ast.walk(function)
                if isinstance(node, ast.Return) and node.value is not None
                for text in _Reader(module, function, self.depth + 1).read(node.value)
            ]
            if found:
                return found
        raise _UnreadableError


def _numbered(text: str) -> str:
    """Return a sentence whose values are ⟨0⟩, ⟨1⟩ and so on."""
    parts = text.split(VALUE)
    return "".join(f"{part}⟨{n}⟩" for n, part in enumerate(parts[:-1])) + parts[-1]
