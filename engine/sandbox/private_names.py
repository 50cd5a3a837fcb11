"""Private names of transformers in a method's source, which may change with every version."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from engine.python_source import parse_module


def find_private_names(files: Mapping[str, bytes]) -> list[str]:
    """Return the private names of transformers that a method uses, sorted.

    Args:
        files: path -> content; only Python files are read.
    """
    found = {
        name
        for path, content in files.items()
        if path.endswith(".py")
        for node in ast.walk(parse_module(content))
        for name in _names_in(node)
    }
    return sorted(name for name in found if name.startswith("_") and not name.startswith("__"))


def _names_in(node: ast.AST) -> Iterator[str]:
    """Yield what a node imports from transformers, and what it reads of the model."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transformers"):
        yield from (alias.name for alias in node.names)
        return
    match node:
        case ast.Attribute(value=ast.Name(id="model"), attr=name):
            yield name
