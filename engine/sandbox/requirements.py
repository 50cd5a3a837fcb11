"""Finds requirements of a method that this machine lacks; nothing is ever installed."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import shlex
import sys
from collections.abc import Iterator

from packaging.requirements import Requirement

from engine.errors import format_value
from engine.messages import Message

MAX_REQUIREMENTS = 64
_MAX_LINE = 200
REQUIREMENTS_FILE = "custom_generate/requirements.txt"


def describe_missing_packages(trees: dict[str, ast.Module], requirements: str) -> str | None:
    """Return one sentence about missing packages, None if all are installed.

    Args:
        trees: path -> parsed source of every file.
        requirements: content of requirements.txt.
    """
    unmet: list[Requirement] = []
    stated = [line.partition("#")[0].strip() for line in requirements.splitlines()]
    if sum(map(bool, stated)) > MAX_REQUIREMENTS:
        return Message(
            "{file} is too long: a method may have {most} requirements.",
            file=REQUIREMENTS_FILE,
            most=MAX_REQUIREMENTS,
        )
    for number, line in enumerate(stated, 1):
        if not line:
            continue
        try:
            wanted = _parse_requirement(line)
            needed = (wanted.marker is None or wanted.marker.evaluate()) and not _is_met(wanted)
        except (ValueError, RecursionError):
            return Message(
                "{file}, line {number}: {line} is no requirement.",
                file=REQUIREMENTS_FILE,
                number=number,
                line=format_value(line),
            )
        if needed:
            unmet.append(wanted)
    if unmet:
        needs = ", ".join(
            f"{wanted} ({_format_installed_version(wanted.name)})" for wanted in unmet
        )
        line = shlex.join(["pip", "install", *(str(wanted) for wanted in unmet)])
        return Message(
            "The method needs {needs}. Nothing is installed for it; {line} would bring it.",
            needs=needs,
            line=line,
        )
    return _describe_missing_import(trees)


def _parse_requirement(line: str) -> Requirement:
    """Parse one line of requirements.txt.

    Raises:
        ValueError: it is not a requirement, or has characters that could control a terminal.
    """
    if len(line) > _MAX_LINE or not (line.isascii() and line.isprintable()):
        raise ValueError
    return Requirement(line)


def _are_copied(node: ast.ImportFrom, trees: dict[str, ast.Module]) -> bool:
    """Return True if the loader of transformers copies the files that ``from . import`` names.

    It copies those that a ``from .NAME import …`` names, in any file.
    """
    copied = {
        other.module
        for tree in trees.values()
        for other in ast.walk(tree)
        if isinstance(other, ast.ImportFrom) and other.level == 1
    }
    return all(alias.name in copied for alias in node.names)


def _describe_missing_import(trees: dict[str, ast.Module]) -> str | None:
    for path, tree in trees.items():
        for node in _iter_unconditional_imports(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif node.level == 0 and node.module:
                names = [node.module]
            elif node.level > 1 or not (node.module or _are_copied(node, trees)):
                return Message(
                    "{path}, line {lineno}: only files of the same folder can be imported, as in "
                    "from .helper import name.",
                    path=path,
                    lineno=node.lineno,
                )
            elif node.module:
                beside = f"{path.rpartition('/')[0]}/{node.module.replace('.', '/')}"
                if f"{beside}.py" in trees or f"{beside}/__init__.py" in trees:
                    continue
                return Message(
                    "{path}, line {lineno}: there is no {module}.py in the same folder.",
                    path=path,
                    lineno=node.lineno,
                    module=node.module,
                )
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                if not _is_installed(top):
                    return Message(
                        "{path}, line {lineno}: there is no package {top} here. Nothing is installed "
                        "for a method; pip install {package} may bring it.",
                        path=path,
                        lineno=node.lineno,
                        top=top,
                        package=top,
                    )
    return None


def _iter_unconditional_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports outside any ``try``, in source order."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Try):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        waiting += reversed(list(ast.iter_child_nodes(node)))


def _is_installed(package: str) -> bool:
    if package in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:
        return True  # imported without a spec, as __main__ is


def _is_met(wanted: Requirement) -> bool:
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    # What is installed counts, even if it is a pre-release.
    return wanted.specifier.contains(version, prereleases=True)


def _format_installed_version(name: str) -> str:
    try:
        return f"installed: {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return "installed: none"
